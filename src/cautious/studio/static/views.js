// What is shown of a problem beside its map: walkers.

import { arraysOf } from "./walk.js";
import { WalkedMap, Walkers } from "./walkers.js";

// while a slider moves, walkers wait
const PAUSE_MILLISECONDS = 150;
const at = (id) => document.getElementById(id);

export class Views {
  /** `rowsOf` gives the map of a statement, or null. */
  constructor(link, map, rowsOf) {
    Object.assign(this, { link, rowsOf, statement: null, waiting: null });
    this.map = new WalkedMap(at("map-walkers"), map, at("map-walked"));
    this.walkers = new Walkers(() => this.ask());
    this.walkers.show([this.map]);
  }

  /** Nothing is known any more. */
  clear() {
    this.statement = null;
    this.map.clear();
  }

  solved(statement) {
    this.statement = statement;
    at("walk-box").hidden = this.rowsOf(statement) === null;
    this.ask();
  }

  /** Ask what the walkers need, when nothing has changed for a moment. */
  ask() {
    clearTimeout(this.waiting);
    if (!this.walkers.isRunning || this.statement === null || this.rowsOf(this.statement) === null) return;
    this.waiting = setTimeout(() => this.link.walk("map", this.statement), PAUSE_MILLISECONDS);
  }

  walk(head, payload, { statement }) {
    const model = { ...head, ...arraysOf(head, payload) };
    const rows = this.rowsOf(statement);
    if (statement === this.statement) this.walkers.follow(this.map, model, this.map.map.spots(rows));
  }
}
