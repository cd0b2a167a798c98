// States that have no map: where the policy spends its time, and what it does there.

import { percent, show } from "./numbers.js";

export class StateTable {
  constructor(body, mark) {
    this.body = body;
    this.mark = mark;
  }

  /** `isVisits`: shares are expected visits, not of the time. */
  show(rows, isVisits) {
    this.words = isVisits ? show : percent;
    const most = Math.max(...rows.map((row) => row.share), 1e-12);
    this.body.replaceChildren(...rows.map((row) => this.row(row, most)));
  }

  row(row, most) {
    const made = document.createElement("tr");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = row.danger;
    box.setAttribute("aria-label", `${row.name} is danger`);
    box.addEventListener("change", () => this.mark(row.state, box.checked));
    const time = share(row.share, most, this.words);
    made.append(cell(box, "centre"), cell(row.name), cell(time), cell(actions(row.actions)));
    return made;
  }
}

function cell(content, kind = "") {
  const made = document.createElement("td");
  made.className = kind;
  made.append(...[content].flat());
  return made;
}

/** A bar; the style sheet says how long a whole one is. */
function bar(part) {
  const made = document.createElement("i");
  made.style.width = `calc(${part} * var(--whole))`;
  return made;
}

function share(value, most, words) {
  const made = document.createElement("span");
  made.className = "share";
  made.append(bar(value / most), words(value));
  return made;
}

function actions(list) {
  return list.map(([name, chance]) => {
    const made = document.createElement("span");
    made.className = "bar";
    made.append(bar(chance), `${name}: ${chance < 0.005 ? "< 1" : Math.round(100 * chance)} %`);
    return made;
  });
}
