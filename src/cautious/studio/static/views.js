// The three views of a problem: its map with walkers, side by side, and the learning race.

import { neutral, Sides } from "./sides.js";
import { Race } from "./race.js";
import { arraysOf } from "./walk.js";
import { WalkedMap, Walkers } from "./walkers.js";

// while a slider moves, walkers wait
const PAUSE_MILLISECONDS = 150;
const VIEWS = ["world", "sides", "race"];
const at = (id) => document.getElementById(id);

export class Views {
  /** `rowsOf` gives the map of a statement, or null where `graph` is shown; `answerOf` what a map shows of it. */
  constructor(link, map, graph, rowsOf, answerOf) {
    Object.assign(this, { link, rowsOf, statement: null, waiting: null, view: "world" });
    this.map = new WalkedMap(at("map-walkers"), map, at("map-walked"));
    this.graph = new WalkedMap(at("graph-walkers"), graph, at("map-walked"));
    this.walkers = new Walkers(() => this.ask());
    this.sides = new Sides(answerOf);
    this.race = new Race(link, answerOf);
    this.show();
    for (const name of VIEWS) {
      at(`tab-${name}`).addEventListener("click", () => this.choose(name));
      at(`tab-${name}`).addEventListener("keydown", (event) => this.key(event, name));
    }
  }

  key(event, name) {
    const shift = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (shift === undefined) return;
    event.preventDefault();
    const next = VIEWS[(VIEWS.indexOf(name) + shift + VIEWS.length) % VIEWS.length];
    this.choose(next);
    at(`tab-${next}`).focus();
  }

  choose(view) {
    this.view = view;
    for (const name of VIEWS) {
      at(name).hidden = name !== view;
      at(`tab-${name}`).setAttribute("aria-selected", String(name === view));
      at(`tab-${name}`).tabIndex = name === view ? 0 : -1;
    }
    // one set of controls for all walkers
    if (view === "sides") at("sides").querySelector(".panels").after(at("walk-box"));
    else at("graph-frame").after(at("walk-box"));
    at("map-walked").hidden = view !== "world";
    this.show();
    this.ask();
  }

  /** The maps of the view that is shown. */
  show() {
    const drawn = this.statement !== null && this.rowsOf(this.statement) === null ? this.graph : this.map;
    this.walkers.show({ sides: this.sides.maps, world: [drawn], race: [] }[this.view]);
  }

  /** Nothing is known any more. */
  clear() {
    this.statement = null;
    this.map.clear();
    this.graph.clear();
    this.sides.clear();
  }

  solved(statement) {
    this.statement = statement;
    this.show();
    this.race.show(statement, this.rowsOf(statement));
    this.ask();
  }

  /** Ask for what the view needs, when nothing has changed for a moment. */
  ask() {
    clearTimeout(this.waiting);
    if (this.statement !== null) this.waiting = setTimeout(() => this.askNow(), PAUSE_MILLISECONDS);
  }

  askNow() {
    const { statement } = this;
    if (this.view === "world" && this.walkers.isRunning) this.link.walk("map", statement);
    if (this.view !== "sides") return;
    this.link.walk("left", neutral(statement));
    this.link.walk("right", statement);
    this.sides.returns.wait();
    this.link.returns("left", neutral(statement));
    this.link.returns("right", statement);
  }

  returns(head, payload) {
    if (this.view === "sides") this.sides.returns.take(head, arraysOf(head, payload));
  }

  refused(type, text) {
    if (type === "race") this.race.refused(text);
    else this.sides.returns.refuse(text);
  }

  walk(head, payload, { statement }) {
    const rows = this.rowsOf(statement);
    if (head.side !== "map") {
      if (this.view === "sides") this.sides.show(head, payload, statement, rows, this.walkers);
    } else if (statement === this.statement) {
      const model = { ...head, ...arraysOf(head, payload) };
      const drawn = rows === null ? this.graph : this.map;
      this.walkers.follow(drawn, model, drawn.map.spots(rows));
    }
  }

  raced(head, payload, { statement }) {
    this.race.take(head, payload, statement, this.rowsOf(statement));
  }
}
