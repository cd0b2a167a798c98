// Side by side: the risk-neutral policy and the one that was asked for, with the same luck.

import { WorldMap } from "./map.js";
import { percent, show } from "./numbers.js";
import { Returns } from "./returns.js";
import { arraysOf } from "./walk.js";
import { WalkedMap } from "./walkers.js";

const at = (id) => document.getElementById(id);

/** The problem of a statement when nothing but the expected return counts. */
export function neutral(statement) {
  const own = statement.limits.own.map(() => null);
  const limits = { time: null, ever: null, own };
  return { ...statement, risk: { ...statement.risk, kind: "none" }, caution: 0, limits };
}

export class Sides {
  /** `answerOf` makes what a map shows of a statement and arrays. */
  constructor(answerOf) {
    this.answerOf = answerOf;
    this.returns = new Returns(at("returns"), at("returns-words"));
    const half = () => Math.max(220, 0.5 * innerHeight);
    for (const side of ["left", "right"]) {
      const map = new WorldMap(at(`${side}-map`), half);
      this[side] = new WalkedMap(at(`${side}-walkers`), map, at(`${side}-walked`));
    }
  }

  get maps() {
    return [this.left, this.right];
  }

  clear() {
    this.returns.clear();
    for (const side of ["left", "right"]) {
      this[side].clear();
      this[side].map.show(null);
      at(`${side}-figures`).textContent = "\u00a0";
    }
  }

  /** What the server says of one side. */
  show(head, payload, statement, rows, walkers) {
    const arrays = arraysOf(head, payload);
    const one = this[head.side];
    at(`${head.side}-figures`).textContent = figures(head);
    // a model without a map has figures and returns to compare
    at(`${head.side}-map`).parentElement.hidden = rows === null;
    if (rows === null) return;
    one.map.paint(rows, statement.danger);
    one.map.show(this.answerOf(statement, rows, arrays.table, arrays.occupancy, head));
    walkers.follow(one, { ...head, ...arrays }, one.map.spots(rows));
  }
}

function figures({ expected_return: earned, danger_share: danger, visits }) {
  const words = [`expected return ${show(earned)}`];
  const time = visits ? `${show(danger)} visits to danger` : `${percent(danger)} of the time in danger`;
  if (danger !== null) words.push(time);
  return words.join(", ");
}
