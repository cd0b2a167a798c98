// Limits: a row for each, with its bound, and below it what became of it.

const FIRST_BOUND = 0.05;
const at = (id) => document.getElementById(id);

export class Limits {
  /** `controls` has the number fields. */
  constructor(store, controls) {
    Object.assign(this, { store, controls, all: [] });
  }

  /** The controls of the limits: those of the problem that was opened, and those on danger. */
  offer(opened) {
    const own = (opened?.limits ?? []).map((one, place) => ({ name: "own", place, ...one }));
    const time = { name: "time", place: null, words: "Time in danger at most", isTime: true, isShare: true };
    const ever = { name: "ever", place: null, words: "Chance of ever entering danger at most", isShare: true };
    this.all = [...own, time, ever].map((one) => ({ ...one, id: `limit-${one.name}${one.place ?? ""}` }));
    at("limit-rows").replaceChildren(...this.all.map((one) => row(one)));
    for (const one of this.all) {
      this.controls.number(one.id, (value) => this.store.changeLimit(one, value / one.scale));
      at(`${one.id}-counts`).addEventListener("change", (event) => {
        const first = one.name === "own" ? opened.statement.limits.own[one.place] : FIRST_BOUND;
        this.store.changeLimit(one, event.target.checked ? first : null);
      });
    }
  }

  show({ limits, horizon, grid, danger }) {
    const hasDanger = grid === null ? danger.length > 0 : grid.rows.some((row) => row.includes("D"));
    for (const one of this.all) {
      const bound = boundOf(limits, one);
      const isOff = bound === null;
      const box = at(`${one.id}-counts`);
      box.checked = !isOff;
      // a limit that counts can always be taken away
      box.disabled = isOff && one.name !== "own" && !hasDanger;
      box.title = box.disabled ? "Mark some danger first" : "";
      at(`${one.id}-row`).hidden = one.name === "ever" && isOff && horizon !== "total" && !Number.isInteger(horizon);
      at(`${one.id}-row`).classList.toggle("off", isOff);
      // until an end, time is counted in visits
      const isVisits = horizon === "total" && one.isTime;
      one.scale = one.isShare && !isVisits ? 100 : 1;
      const name = isVisits ? one.words.replace("Time in", "Visits to") : one.words;
      at(`${one.id}-row`).querySelector(".name").textContent = at(one.id).ariaLabel = name;
      at(`${one.id}-row`).querySelector(".room").textContent = one.scale === 100 ? "%" : "";
      const field = at(one.id);
      field.disabled = isOff;
      if (one.name !== "own") field.min = 0;
      if (isOff) field.value = "";
      else this.controls.fill(one.id, one.scale * bound);
    }
  }

  /** What became of the limits: a sentence below each; null while nothing is known. */
  tell(rows) {
    const told = new Map((rows ?? []).map((row) => [`limit-${row.limit}${row.place ?? ""}`, row]));
    for (const { id } of this.all) {
      const row = told.get(id);
      at(`${id}-words`).textContent = row?.text ?? "";
      at(`${id}-row`).classList.toggle("missed", row !== undefined && !row.kept);
    }
    const barriers = (rows ?? []).filter((row) => row.limit === "barrier");
    at("limit-notes").textContent = barriers.map((row) => row.text).join(". ");
  }

  /** The only limit that counts, or null. */
  only(limits) {
    const given = this.all.filter((one) => boundOf(limits, one) !== null);
    return given.length === 1 ? given[0] : null;
  }
}

function row({ id, words }) {
  const box = make("input", { type: "checkbox", id: `${id}-counts` });
  const field = make("input", { type: "number", id, step: "any", ariaLabel: words });
  return make(
    "div",
    { id: `${id}-row`, className: "limit" },
    make("label", {}, box, make("span", { className: "name", textContent: words })),
    make("span", { className: "with-unit" }, field, make("span", { className: "room" })),
    make("p", { className: "soft", id: `${id}-words` }),
  );
}

/** The bound of a limit, or null where it does not count. */
export function boundOf(limits, { name, place }) {
  return name === "own" ? limits.own[place] : limits[name];
}

function make(tag, fields, ...parts) {
  const made = Object.assign(document.createElement(tag), fields);
  made.append(...parts);
  return made;
}
