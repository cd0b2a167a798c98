// Painting: brushes, strokes of the pointer, and the same by keyboard.

import { colours, drawCell } from "./cells.js";

const BRUSHES = [
  ["#", "Wall"],
  ["D", "Danger"],
  ["G", "Goal"],
  ["R", "Reward"],
  ["S", "Start"],
  [".", "Erase"],
];
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export class Painter {
  constructor(map, store, tools, here) {
    Object.assign(this, { map, store, tools, here });
    this.brush = "D";
    this.stroke = null;
    const { canvas } = map;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", () => this.up());
    canvas.addEventListener("pointercancel", () => this.up());
    canvas.addEventListener("pointerleave", () => this.point(null));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.point(null));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.offer(this.marks));
  }

  /** Which brushes there are: a model that was opened has only danger and erase. */
  offer(marks) {
    this.marks = marks;
    if (!marks.includes(this.brush)) this.brush = marks[0];
    const theme = colours();
    this.tools.replaceChildren(
      ...BRUSHES.filter(([mark]) => marks.includes(mark)).map(([mark, name], index) => {
        const button = document.createElement("button");
        button.type = "button";
        button.setAttribute("role", "radio");
        button.setAttribute("aria-checked", String(mark === this.brush));
        button.tabIndex = mark === this.brush ? 0 : -1;
        button.dataset.mark = mark;
        button.title = `Key ${index + 1}`;
        button.append(swatch(mark, theme), name);
        button.addEventListener("click", () => this.choose(mark));
        button.addEventListener("keydown", (event) => this.step(event, mark));
        return button;
      }),
    );
  }

  choose(mark) {
    this.brush = mark;
    for (const button of this.tools.children) {
      const isChosen = button.dataset.mark === mark;
      button.setAttribute("aria-checked", String(isChosen));
      button.tabIndex = isChosen ? 0 : -1;
    }
  }

  /** Arrow keys walk through the brushes, as in every group of radio buttons. */
  step(event, mark) {
    const shift = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (shift === undefined) return;
    event.preventDefault();
    const shown = [...this.tools.children].map((button) => button.dataset.mark);
    const next = shown[(shown.indexOf(mark) + shift + shown.length) % shown.length];
    this.choose(next);
    [...this.tools.children].find((button) => button.dataset.mark === next).focus();
  }

  down(event) {
    const cell = this.map.cellAt(event);
    if (cell === null || event.button !== 0) return;
    this.map.canvas.setPointerCapture(event.pointerId);
    this.stroke = cell;
    this.put([cell], event.shiftKey);
  }

  move(event) {
    const cell = this.map.cellAt(event);
    this.point(cell);
    if (this.stroke === null || cell === null) return;
    this.put(between(this.stroke, cell), event.shiftKey);
    this.stroke = cell;
  }

  up() {
    if (this.stroke === null) return;
    this.stroke = null;
    this.store.commit();
  }

  point(cell) {
    this.map.cursor = cell;
    this.map.draw();
    this.here.textContent = cell === null ? "" : this.map.describe(...cell);
  }

  key(event) {
    const { rows } = this.map;
    const [row, column] = this.map.cursor ?? [0, 0];
    if (event.key in MOVES) {
      const [di, dj] = MOVES[event.key];
      const isFirst = this.map.cursor === null;
      const to = isFirst ? [0, 0] : [row + di, column + dj];
      this.point([clamp(to[0], rows.length), clamp(to[1], rows[0].length)]);
    } else if (event.key === " " || event.key === "Enter") {
      this.put([[row, column]], event.shiftKey);
      this.store.commit();
      this.point([row, column]);
    } else if (/^[1-6]$/.test(event.key) && !event.ctrlKey && !event.metaKey) {
      const mark = this.tools.children[Number(event.key) - 1]?.dataset.mark;
      if (mark !== undefined) this.choose(mark);
    } else return;
    event.preventDefault();
  }

  put(cells, keepStarts) {
    const { grid, danger } = this.store.document;
    if (grid === null) {
      const states = new Set(danger);
      for (const [i, j] of cells) {
        const state = this.map.states[i][j];
        if (state >= 0) states[this.brush === "D" ? "add" : "delete"](state);
      }
      if (states.size !== danger.length || danger.some((state) => !states.has(state)))
        this.store.change({ danger: [...states].sort((a, b) => a - b) }, { commit: false });
      return;
    }
    const rows = grid.rows.map((row) => [...row]);
    for (const [i, j] of cells) {
      // one start is usual: painting it moves it, with shift another one is added
      if (this.brush === "S" && !keepStarts) for (const row of rows) erase(row, "S");
      rows[i][j] = this.brush;
    }
    const painted = rows.map((row) => row.join(""));
    if (painted.some((row, i) => row !== grid.rows[i])) this.store.changeGrid({ rows: painted }, { commit: false });
  }
}

function swatch(mark, theme) {
  const canvas = document.createElement("canvas");
  const scale = devicePixelRatio || 1;
  canvas.width = canvas.height = 20 * scale;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  // the badge of a start sits in a corner of its cell: here it fills the swatch
  const size = mark === "S" ? 44 : 20;
  drawCell(pen, mark === "S" ? 1 : 0, mark === "S" ? 1 : 0, size, mark, mark === "D", null, theme);
  pen.strokeStyle = theme.line;
  pen.strokeRect(0.5, 0.5, 19, 19);
  return canvas;
}

/** Cells on the straight way from one to another, without the first. */
function between([i, j], [k, l]) {
  const steps = Math.max(Math.abs(k - i), Math.abs(l - j), 1);
  const way = Array.from({ length: steps }, (_, at) => (at + 1) / steps);
  return way.map((t) => [Math.round(i + t * (k - i)), Math.round(j + t * (l - j))]);
}

function erase(row, mark) {
  row.forEach((one, k) => {
    if (one === mark) row[k] = ".";
  });
}

function clamp(value, size) {
  return Math.min(Math.max(value, 0), size - 1);
}
