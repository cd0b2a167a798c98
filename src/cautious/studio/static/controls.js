// The controls on the right and below the map: they show the document and change it.

import { Limits } from "./limits.js";
import { cautionAt, marks, positionOf, show, STEPS } from "./numbers.js";

// name in the list, what it means, and what its figure is
const RISKS = {
  none: ["No risk", "Only the expected return counts, within the limits.", "none"],
  peak: [
    "Time in the worst danger area",
    "The share of time in the danger area that is visited most. Danger cells that touch form one area.",
    "share of the time",
  ],
  variance: ["Unsteady points (variance)", "How much the points of single steps vary around their mean.", "variance"],
  cvar: ["Bad steps (CVaR)", "What is lost, on average, in the worst share of all steps.", "loss in bad steps"],
  kl: [
    "Leaving habits (relative entropy)",
    "How far the behaviour is from somebody's habits. A careful walker fears danger far more than the points say.",
    "relative entropy",
  ],
  tv: [
    "Leaving habits (total variation)",
    "The share of time spent otherwise than somebody with these habits would.",
    "share of the time",
  ],
  entropy: [
    "Being predictable (entropy)",
    "How concentrated the behaviour is; caution spreads it over more cells.",
    "negative entropy",
  ],
};
const PARAMETERS = {
  cvar: { name: "Worst", unit: "% of the steps", field: "level", min: 0.1, max: 100 },
};
const HORIZONS = {
  discounted: "What is earned later counts less, by the discount of each step.",
  steps: "Only so many steps count; then it is over. What is best depends on how many are left.",
  average: "What is earned per step when it goes on like this for ever.",
  total: "All that is earned until an end: a state that cannot be left and pays nothing.",
};
const FIRST_STEPS = 40;
const PAYS = ["step", "danger", "goal", "reward"];
const at = (id) => document.getElementById(id);

export class Controls {
  constructor(store) {
    this.store = store;
    this.opened = null;
    this.typing = null;
    at("risk").addEventListener("change", (event) => store.changeRisk({ kind: event.target.value }));
    at("habit").addEventListener("change", (event) => store.changeRisk({ habit: event.target.value }));
    this.number("parameter", (value) => store.changeRisk({ level: 1 - value / 100 }));
    at("horizon").addEventListener("change", (event) => this.look(event.target.value));
    this.number("steps", (value) => store.change({ horizon: Math.round(value), step: 0 }));
    at("step").addEventListener("input", () => store.change({ step: at("step").valueAsNumber }, { commit: false }));
    at("step").addEventListener("change", () => store.commit());
    this.limits = new Limits(store, this);
    const slider = at("caution");
    slider.max = STEPS;
    slider.addEventListener("input", () => {
      store.change({ caution: cautionAt(slider.valueAsNumber) }, { commit: false });
    });
    slider.addEventListener("change", () => store.commit());
    this.number("caution-number", (value) => store.change({ caution: value }));
    for (const name of PAYS)
      this.number(`pay-${name}`, (value) => store.changeGrid({ pays: { ...store.document.grid.pays, [name]: value } }));
    this.number("slip", (value) => store.changeGrid({ slip: value }));
    this.number("discount", (value) => store.changeGrid({ discount: value }));
    this.number("columns", (value) => store.changeGrid({ rows: resized(store.document.grid.rows, null, value) }));
    this.number("rows", (value) => store.changeGrid({ rows: resized(store.document.grid.rows, value, null) }));
    at("caution-scale").replaceChildren(
      ...marks().map(([position, text]) => {
        const mark = document.createElement("span");
        mark.textContent = text;
        mark.style.left = `${(100 * position) / STEPS}%`;
        return mark;
      }),
    );
  }

  /** A number field; what is no number, or out of range, is not taken. Its step is only for its arrows. */
  number(id, take) {
    const field = at(id);
    field.addEventListener("input", () => {
      const { badInput, rangeUnderflow, rangeOverflow } = field.validity;
      const isWrong = badInput || rangeUnderflow || rangeOverflow;
      field.setAttribute("aria-invalid", String(isWrong));
      if (isWrong || field.value === "") return;
      this.typing = id;
      take(field.valueAsNumber);
      this.typing = null;
    });
    // what was left half-typed or refused goes back to what counts
    for (const end of ["change", "blur"]) field.addEventListener(end, () => this.show(this.store.document));
  }

  /** Another horizon; a number of steps begins with one that shows something. */
  look(kind) {
    const horizon = { discounted: null, steps: FIRST_STEPS }[kind];
    this.store.change({ horizon: horizon === undefined ? kind : horizon, step: 0 });
  }

  showHorizon({ horizon, step, grid }) {
    const isSteps = Number.isInteger(horizon);
    const kind = horizon === null ? "discounted" : isSteps ? "steps" : horizon;
    at("horizon").value = kind;
    at("steps-label").hidden = !isSteps;
    if (isSteps) this.fill("steps", horizon);
    const refused = grid === null ? this.opened.horizons : {};
    const reasons = [];
    for (const option of at("horizon").options) {
      const reason = refused[option.value] ?? "";
      option.disabled = reason !== "" && option.value !== kind;
      option.title = reason;
      if (reason !== "" && !reasons.includes(reason)) reasons.push(reason);
    }
    const others = reasons.length > 0 ? ` Not on offer: ${reasons.join("; ")}.` : "";
    at("horizon-words").textContent = HORIZONS[kind] + others;
    at("step-box").hidden = !isSteps;
    if (isSteps) {
      at("step").max = horizon;
      at("step").value = step;
      const words = step === 0 ? `all ${horizon} together` : `${step} of ${horizon}`;
      at("step-words").textContent = words;
      at("step").setAttribute("aria-valuetext", words);
    }
    // averages and totals do not discount
    at("discount").disabled = kind === "average" || kind === "total";
    at("discount").max = horizon === null ? this.largestDiscount : 1;
  }

  /** Which risks there are, and in what is paid, depends on what was opened. */
  offer(opened, { largest_side, largest_pay, largest_caution, largest_discount, largest_horizon }) {
    this.opened = opened;
    this.largestDiscount = largest_discount;
    at("steps").max = largest_horizon;
    this.limits.offer(opened);
    this.unit = opened?.unit ?? "points";
    this.count("");
    at("columns").max = at("rows").max = largest_side;
    // the server refuses more, and what it refuses must not stay in a field
    at("caution-number").max = largest_caution;
    for (const name of PAYS) Object.assign(at(`pay-${name}`), { min: -largest_pay, max: largest_pay });
    const kinds = Object.entries(RISKS).map(([kind, [name]]) => [kind, name]);
    if (opened !== null && opened.own_risk !== null) kinds.unshift(["own", `Of the problem: ${opened.own_risk}`]);
    at("risk").replaceChildren(...kinds.map(([kind, name]) => new Option(name, kind)));
  }

  /** In what is counted: the unit, and how rewards are added up. */
  count(how) {
    const text = how === "" ? this.unit : `${this.unit}, ${how}`;
    for (const one of document.querySelectorAll(".unit")) one.textContent = one.title = text;
  }

  words(kind) {
    return kind === "own" ? this.opened.own_words.join(" ") : RISKS[kind][1];
  }

  /** Whether a risk is a barrier, of which at caution 0 the limit is left. */
  isBarrier(kind) {
    return kind === "own" && this.opened.own_limits;
  }

  /** What the figure of a risk is, in a word or three. */
  figure(kind) {
    return kind === "own" ? this.opened.own_risk : RISKS[kind][2];
  }

  show(document_) {
    const { grid, risk, caution } = document_;
    at("risk").value = risk.kind;
    at("risk-words").textContent = this.words(risk.kind);
    at("risk-name").textContent = at("risk-name").title = this.figure(risk.kind);
    const parameter = PARAMETERS[risk.kind];
    const hasHabit = risk.kind === "kl" || risk.kind === "tv";
    at("parameter-label").hidden = parameter === undefined && !hasHabit;
    at("parameter-name").textContent = hasHabit ? "Whose habits" : (parameter?.name ?? "");
    at("parameter").parentElement.hidden = hasHabit;
    at("habit").hidden = !hasHabit;
    at("habit").value = risk.habit;
    if (parameter !== undefined) {
      at("parameter-unit").textContent = parameter.unit;
      Object.assign(at("parameter"), { min: parameter.min, max: parameter.max, step: "any" });
      this.fill("parameter", 100 * (1 - risk.level));
    }
    at("caution").value = positionOf(caution);
    at("caution").setAttribute("aria-valuetext", show(caution));
    this.fill("caution-number", caution);
    at("caution-box").hidden = risk.kind === "none";
    at("caution").disabled = at("caution-number").disabled = risk.kind === "none";
    const nothing = this.isBarrier(risk.kind) ? "only its limit counts" : "risk does not count";
    const price = caution === 0 ? nothing : `${this.unit} that one unit of risk costs`;
    at("caution-words").textContent = price;
    this.showHorizon(document_);
    this.limits.show(document_);
    if (grid !== null) this.showRules(grid);
  }

  showRules(grid) {
    for (const name of PAYS) this.fill(`pay-${name}`, grid.pays[name]);
    this.fill("slip", grid.slip);
    this.fill("discount", grid.discount);
    this.fill("columns", grid.rows[0].length);
    this.fill("rows", grid.rows.length);
  }

  /** Set a number, except in the field it comes from. */
  fill(id, value) {
    if (this.typing === id) return;
    at(id).value = Number(value.toPrecision(6));
    at(id).setAttribute("aria-invalid", "false");
  }
}

/** The grid with more or fewer rows and columns; what is cut off is kept in the history. */
function resized(rows, height, width) {
  const columns = Math.round(width ?? rows[0].length);
  const wanted = Math.round(height ?? rows.length);
  const kept = rows.slice(0, wanted).map((row) => row.slice(0, columns).padEnd(columns, "."));
  while (kept.length < wanted) kept.push(".".repeat(columns));
  return kept;
}
