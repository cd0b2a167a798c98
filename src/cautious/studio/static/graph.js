// A model without a map as a graph: states in columns by their distance from the start, and the moves of the policy.

import { colours } from "./cells.js";
import { percent, show } from "./numbers.js";
import { label, node } from "./svg.js";

const COLUMN = 108;
// the name of a state, and "start" above the next one, have room between two of them
const ROW = 68;
const RADIUS = 17;
const MARGIN = 34;
const LONGEST_NAME = 17;
// more states than this in one layer make another column
const MOST_IN_COLUMN = 8;

export class Graph {
  /** `mark(state, isDanger)` is called when somebody clicks a state. */
  constructor(box, mark) {
    Object.assign(this, { box, mark, size: 60, extent: [0, 0], places: new Map() });
  }

  show({ nodes, edges, hidden }, isVisits) {
    const across = Math.max(3, Math.floor((this.box.parentElement.clientWidth - 2 * MARGIN) / COLUMN));
    const columns = layout(nodes);
    if (hidden > 0) columns.push([]);
    this.places = new Map();
    let top = MARGIN;
    // what is too long for one line turns and goes back below it, so that neighbours stay together
    for (let first = 0; first < columns.length; first += across) {
      const line = columns.slice(first, first + across);
      const high = ROW * Math.max(...line.map((column) => column.length - 1), 0);
      line.forEach((column, k) => {
        const isBack = (first / across) % 2 === 1;
        const left = MARGIN + COLUMN * (isBack ? across - 1 - k : k) + 14;
        // a column is centred, and every second one a little lower so that moves do not hide each other
        const free = (high - ROW * (column.length - 1)) / 2 + (k % 2 === 1 ? 9 : 0);
        column.forEach((one, row) => this.places.set(one.state, [left, top + free + ROW * row]));
        this.elsewhere = [left, top + high / 2];
      });
      top += high + ROW + 12;
    }
    const [width, height] = [2 * MARGIN + COLUMN * (Math.min(columns.length, across) - 1) + 28, top - 20];
    this.extent = [width, height];
    const figure = node("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group" });
    figure.setAttribute("aria-label", "States and the moves of the policy; the table below says the same");
    figure.append(marker());
    for (const [from, to, chance] of edges) figure.append(this.edge(nodes[from], nodes[to], chance));
    const largest = Math.max(...nodes.map((one) => one.share), 1e-12);
    for (const one of nodes) figure.append(...this.node(one, largest, isVisits));
    if (hidden > 0) {
      const text = label(this.elsewhere[0], this.elsewhere[1], `${hidden.toLocaleString("en")} more`, "middle");
      text.setAttribute("class", "many");
      figure.append(text);
    }
    this.box.replaceChildren(figure);
  }

  /** Where walkers are: states that are not drawn are elsewhere. */
  spots() {
    return (state) => this.places.get(state) ?? this.elsewhere;
  }

  edge(from, to, chance) {
    const [[x1, y1], [x2, y2]] = [this.places.get(from.state), this.places.get(to.state)];
    const far = Math.hypot(x2 - x1, y2 - y1);
    const [ux, uy] = [(x2 - x1) / far, (y2 - y1) / far];
    // moves there and back are two arcs
    const bend = 0.18 * far;
    const [mx, my] = [(x1 + x2) / 2 - uy * bend, (y1 + y2) / 2 + ux * bend];
    const reach = RADIUS + 5;
    const into = Math.hypot(x2 - mx, y2 - my);
    const [ex, ey] = [x2 - ((x2 - mx) / into) * reach, y2 - ((y2 - my) / into) * reach];
    const made = node("path", { class: "edge", d: `M${x1},${y1} Q${mx},${my} ${ex},${ey}`, "marker-end": "url(#tip)" });
    made.setAttribute("stroke-opacity", 0.15 + 0.75 * chance);
    made.setAttribute("stroke-width", 0.8 + 2 * chance);
    const title = node("title", {});
    title.textContent = `${from.name} → ${to.name}: ${percent(chance)}`;
    made.append(title);
    return made;
  }

  node(one, largest, isVisits) {
    const [cx, cy] = this.places.get(one.state);
    const theme = colours();
    const share = isVisits ? `${show(one.share)} visits` : `${percent(one.share)} of the time`;
    const words = `${one.name}: ${share}${one.danger ? ", danger" : ""}${one.start > 0 ? ", start" : ""}`;
    const blank = node("circle", { cx, cy, r: RADIUS, fill: theme.floor });
    const kind = one.danger ? "node risky" : "node";
    const button = { role: "button", tabindex: 0, "aria-pressed": one.danger, "aria-label": `Danger: ${words}` };
    const disc = node("circle", { class: kind, cx, cy, r: RADIUS, fill: theme.visit, ...button });
    disc.setAttribute("fill-opacity", one.share < 1e-9 ? 0 : 0.1 + 0.75 * Math.sqrt(one.share / largest));
    const title = node("title", {});
    title.textContent = words;
    disc.append(title);
    const change = () => this.mark(one.state, !one.danger);
    disc.addEventListener("click", change);
    disc.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      change();
    });
    const short = one.name.length > LONGEST_NAME ? `${one.name.slice(0, LONGEST_NAME - 1)}…` : one.name;
    const parts = [blank, disc, label(cx, cy + RADIUS + 13, short, "middle")];
    if (one.start > 0) parts.push(label(cx, cy - RADIUS - 5, "start", "middle"));
    return parts;
  }
}

/** Columns of nodes: layers, large ones in several columns, from the start to the right. */
function layout(nodes) {
  const layers = new Map();
  for (const one of nodes) layers.set(one.layer, [...(layers.get(one.layer) ?? []), one]);
  // with a single layer, as where every state may be the first, a column would say nothing
  const most = layers.size === 1 ? 1 : MOST_IN_COLUMN;
  const columns = [];
  for (const layer of [...layers.keys()].sort((a, b) => a - b)) {
    const all = layers.get(layer);
    const count = Math.ceil(all.length / most);
    const each = Math.ceil(all.length / count);
    for (let k = 0; k < count; k += 1) columns.push(all.slice(k * each, (k + 1) * each));
  }
  return columns;
}

function marker() {
  const made = node("marker", { id: "tip", viewBox: "0 0 6 6", refX: 5, refY: 3, markerWidth: 7, markerHeight: 7 });
  made.setAttribute("orient", "auto");
  made.setAttribute("markerUnits", "userSpaceOnUse");
  made.append(node("path", { d: "M0,0 L6,3 L0,6 Z", fill: "context-stroke" }));
  const holder = node("defs", {});
  holder.append(made);
  return holder;
}
