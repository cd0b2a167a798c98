// What the page states: one immutable document, its history, and who wants to know.

const KEPT = 200;

export class Store {
  constructor() {
    this.document = null;
    this.listeners = [];
    this.past = [];
    this.future = [];
    this.base = null;
  }

  listen(listener) {
    this.listeners.push(listener);
  }

  /** Replace the document; without `commit` this is part of a gesture such as a stroke, which `commit` ends. */
  set(document, { commit = true } = {}) {
    this.document = document;
    if (commit) this.commit();
    this.tell();
  }

  /** Change some fields of the document. */
  change(fields, options) {
    this.set({ ...this.document, ...fields }, options);
  }

  changeGrid(fields, options) {
    this.change({ grid: { ...this.document.grid, ...fields } }, options);
  }

  changeRisk(fields, options) {
    this.change({ risk: { ...this.document.risk, ...fields } }, options);
  }

  changeLimit({ name, place }, bound, options) {
    const { limits } = this.document;
    const own = limits.own.map((one, k) => (name === "own" && k === place ? bound : one));
    this.change({ limits: name === "own" ? { ...limits, own } : { ...limits, [name]: bound } }, options);
  }

  /** A new document without history. */
  start(document) {
    this.past = [];
    this.future = [];
    this.base = document;
    this.document = document;
    this.tell();
  }

  commit() {
    if (this.document === this.base) return;
    this.past.push(this.base);
    if (this.past.length > KEPT) this.past.shift();
    this.future = [];
    this.base = this.document;
    this.tell();
  }

  undo() {
    this.commit();
    this.step(this.past, this.future);
  }

  redo() {
    this.step(this.future, this.past);
  }

  step(from, to) {
    if (from.length === 0) return;
    to.push(this.base);
    this.document = this.base = from.pop();
    this.tell();
  }

  tell() {
    for (const listener of this.listeners) listener(this.document);
  }
}
