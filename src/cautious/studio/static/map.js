// The map: a canvas with every cell, the answer on top of it, and a cursor.

import { Arrows, colours, drawCell, VECTORS } from "./cells.js";
import { percent, show } from "./numbers.js";

const MARKS = { ".": "floor", "#": "wall", D: "danger", G: "goal", R: "reward", S: "start" };
// what stands above and below the map of the page on a wide screen, in pixels
const OTHERS = 325;
const LARGEST_CELL = 84;

/** The number of the state in every cell of a map; walls have none. */
export function statesOf(rows) {
  let next = 0;
  return rows.map((row) => [...row].map((mark) => (mark === "#" ? -1 : next++)));
}

export class WorldMap {
  /** `room` gives the largest height in pixels. */
  constructor(canvas, room = () => Math.max(320, innerHeight - OTHERS)) {
    Object.assign(this, { canvas, room });
    this.pen = canvas.getContext("2d");
    this.rows = ["."];
    this.states = statesOf(this.rows);
    this.danger = new Set();
    this.arrows = [];
    this.answer = null;
    this.cursor = null;
    this.theme = colours();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.theme = colours();
      this.draw();
    });
    new ResizeObserver(() => this.fit()).observe(canvas.parentElement);
  }

  /** What is painted; `danger` are states of a model that cannot be painted. */
  paint(rows, danger = []) {
    const isResized = rows.length !== this.rows.length || rows[0].length !== this.rows[0].length;
    this.rows = rows;
    this.states = statesOf(rows);
    this.danger = new Set(danger);
    if (isResized) this.fit();
    else this.draw();
  }

  /** What the solver says: `rows` are those it was asked about. */
  show(answer) {
    this.answer = answer;
    if (answer !== null) {
      answer.states = statesOf(answer.rows);
      answer.time = this.times(answer);
      // a cell that is never left takes most of the time, and would hide the way there
      const others = answer.time.filter((_, state) => !answer.still.has(state));
      answer.most = Math.max(...others, 1e-12);
    }
    this.draw();
  }

  times({ occupancy, n_actions: width }) {
    const found = new Float64Array(occupancy.length / width);
    for (let pair = 0; pair < occupancy.length; pair += 1) found[Math.floor(pair / width)] += occupancy[pair];
    return [...found];
  }

  fit() {
    const width = this.canvas.parentElement.clientWidth;
    if (width === 0) return;
    const fitting = Math.min(width / this.rows[0].length, this.room() / this.rows.length, LARGEST_CELL);
    const size = Math.max(3, Math.floor(fitting));
    this.size = size;
    this.scale = devicePixelRatio || 1;
    this.canvas.width = Math.round(size * this.rows[0].length * this.scale);
    this.canvas.height = Math.round(size * this.rows.length * this.scale);
    this.canvas.style.width = `${size * this.rows[0].length}px`;
    this.canvas.style.height = `${size * this.rows.length}px`;
    this.draw();
  }

  /** [row, column] of a pointer event; null outside. */
  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.size);
    const row = Math.floor((event.clientY - box.top) / this.size);
    const isInside = row >= 0 && column >= 0 && row < this.rows.length && column < this.rows[0].length;
    return isInside ? [row, column] : null;
  }

  /** Width and height in pixels. */
  get extent() {
    return [this.size * this.rows[0].length, this.size * this.rows.length];
  }

  /** The middle of the cell of each state, if these are the rows that the states are of. */
  spots(rows) {
    const cells = [];
    rows.forEach((row, i) => [...row].forEach((mark, j) => mark !== "#" && cells.push([i, j])));
    return (state) => [(cells[state][1] + 0.5) * this.size, (cells[state][0] + 0.5) * this.size];
  }

  /** The state of a cell in the answer, or -1. */
  stateOf(row, column) {
    return this.answer?.states[row]?.[column] ?? -1;
  }

  draw() {
    if (this.size === undefined) return;
    const { pen, size, theme } = this;
    pen.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    const arrows = new Arrows();
    this.rows.forEach((row, i) => [...row].forEach((mark, j) => this.drawOne(i, j, mark, arrows)));
    pen.strokeStyle = theme.line;
    pen.lineWidth = 1;
    pen.globalAlpha = size < 12 ? 0.4 : 1;
    pen.beginPath();
    for (let i = 0; i <= this.rows.length; i += 1) line(pen, 0, i * size, size * this.rows[0].length, i * size);
    for (let j = 0; j <= this.rows[0].length; j += 1) line(pen, j * size, 0, j * size, size * this.rows.length);
    pen.stroke();
    pen.globalAlpha = 1;
    arrows.draw(pen, size, theme.arrow);
    if (this.cursor !== null) {
      const [i, j] = this.cursor;
      pen.strokeStyle = theme.accent;
      pen.lineWidth = 2.5;
      pen.strokeRect(j * size + 1.5, i * size + 1.5, size - 3, size - 3);
    }
  }

  drawOne(i, j, mark, arrows) {
    const { answer, size } = this;
    const state = this.stateOf(i, j);
    if (state < 0 && answer?.board) {
      // the end of a line that was broken into rows
      this.pen.fillStyle = this.theme.paper;
      this.pen.fillRect(j * size, i * size, size, size);
      return;
    }
    const time = state < 0 ? null : answer.time[state];
    const visited = time === null || time < 1e-9 ? null : Math.min(1, Math.sqrt(time / answer.most));
    const isDanger = mark === "D" || this.danger.has(this.states[i][j]);
    drawCell(this.pen, j * size, i * size, size, mark, isDanger, visited, this.theme);
    if (time === null || mark === "#") return;
    const width = answer.n_actions;
    if (answer.board !== null) {
      const chances = [...answer.policy.subarray(state * width, (state + 1) * width)];
      answer.board.draw(this.pen, j * size, i * size, size, state, chances, this.theme);
      return;
    }
    if (answer.still.has(state)) return;
    for (let action = 0; action < width; action += 1) {
      const chance = answer.policy[state * width + action];
      const direction = answer.arrows[action];
      if (chance < 0.015 || !(direction in VECTORS)) continue;
      const strength = visited === null ? 0.22 : visited > 0.02 ? 1 : 0.45;
      arrows.add(j * size, i * size, size, direction, chance, strength);
    }
  }

  /** What the darkest blue stands for, in words. */
  get scaleWords() {
    const { most, visits } = this.answer;
    return visits ? `0 to ${show(most)} visits` : `0 to ${percent(most)} of the time`;
  }

  /** A cell in words. */
  describe(row, column) {
    const mark = this.rows[row][column];
    const names = [MARKS[mark] ?? `marked ${mark}`];
    if (this.danger.has(this.states[row][column])) names.push("danger");
    const state = this.stateOf(row, column);
    const board = this.answer?.board ?? null;
    if (board !== null) names[0] = state < 0 ? "" : board.name(state);
    const place = board !== null ? names.join(", ") : `Row ${row}, column ${column}: ${names.join(", ")}`;
    if (mark === "#" || state < 0) return place;
    const { answer } = this;
    if (answer.time[state] < 1e-9) return `${place}; never visited`;
    const time = answer.time[state];
    const parts = [answer.visits ? `${show(time)} visits` : `${percent(time)} of the time`];
    if (!answer.still.has(state)) parts.push(this.actions(state));
    return `${place}; ${parts.join("; ")}`;
  }

  actions(state) {
    const { policy, n_actions: width, names } = this.answer;
    const chances = names.map((name, action) => [policy[state * width + action], name]);
    const likely = chances.filter(([chance]) => chance >= 0.005).sort((a, b) => b[0] - a[0]);
    return likely.map(([chance, name]) => `${name} ${Math.round(100 * chance)} %`).join(", ");
  }
}

function line(pen, x1, y1, x2, y2) {
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
}
