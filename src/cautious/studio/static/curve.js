// Return against risk, for all cautions, or against the only limit; and where the present answer is.

import { percent, show } from "./numbers.js";
import { label, node, scale, setAttributes } from "./svg.js";

const SPACE = { left: 62, right: 16, top: 14, bottom: 40 };
const REACH = 16;

export class Curve {
  constructor(box, choose) {
    this.box = box;
    this.choose = choose;
    this.points = null;
    this.now = null;
    this.spot = null;
    this.note = "";
    this.axis = { risk: "", share: false, limit: null };
    this.last = null;
    new ResizeObserver(() => this.draw()).observe(box);
  }

  /** The points of a frontier, and what is on their axis; null while there are none, and `note` says why. */
  show(points, note = "", axis = this.axis) {
    this.points = points;
    this.note = note;
    this.axis = axis;
    this.draw();
  }

  /** Where the present answer is; the rest is drawn again only when it lies outside. */
  at(x, expectedReturn) {
    this.now = x === null || expectedReturn === null ? null : { x, expected_return: expectedReturn };
    const place = this.now === null || this.spot === null ? null : [this.x.to(x), this.y.to(expectedReturn)];
    if (place === null || !this.x.holds(place[0]) || !this.y.holds(place[1])) this.draw();
    else setAttributes(this.spot, { cx: place[0], cy: place[1] });
  }

  draw() {
    this.spot = null;
    if (this.points === null || this.points.length === 0) {
      const text = document.createElement("p");
      text.className = "soft";
      text.textContent = this.note;
      this.box.replaceChildren(text);
      return;
    }
    const { clientWidth: width, clientHeight: height } = this.box;
    if (width < 80 || height < 80) return;
    const all = this.now === null ? this.points : [...this.points, this.now];
    const factor = this.axis.share ? 100 : 1;
    const x = scale(all.map((one) => one.x), SPACE.left, width - SPACE.right, factor);
    const y = scale(all.map((one) => one.expected_return), height - SPACE.bottom, SPACE.top);
    const named = { role: "group", "aria-label": `Expected return against ${this.axis.risk}` };
    const figure = node("svg", { viewBox: `0 0 ${width} ${height}`, ...named });
    figure.append(...axes(x, y, width, height, this.axis));
    const sorted = [...this.points].sort((a, b) => a.x - b.x || a.expected_return - b.expected_return);
    const corners = sorted.map((one) => `${x.to(one.x)},${y.to(one.expected_return)}`);
    figure.append(node("polyline", { class: "line", points: corners.join(" ") }));
    for (const one of this.points) figure.append(...this.point(one, x.to(one.x), y.to(one.expected_return)));
    figure.addEventListener("click", (event) => {
      const meant = this.nearest(event, figure, x, y);
      if (meant !== null) this.choose(meant, this.axis.limit);
    });
    if (this.now !== null) {
      this.spot = node("circle", { class: "now", cx: x.to(this.now.x), cy: y.to(this.now.expected_return), r: 6.5 });
      figure.append(this.spot);
    }
    Object.assign(this, { x, y });
    this.box.replaceChildren(figure);
  }

  /** The point that was meant, or null; targets overlap. Of points in one place, the one after that chosen last. */
  nearest(event, figure, x, y) {
    const box = figure.getBoundingClientRect();
    const [left, top] = [event.clientX - box.left, event.clientY - box.top];
    const from = (one) => Math.hypot(x.to(one.x) - left, y.to(one.expected_return) - top);
    const least = Math.min(...this.points.map(from));
    if (least > REACH) return null;
    const there = this.points.filter((one) => from(one) < least + 1);
    const chosen = there[(there.indexOf(this.last) + 1) % there.length];
    this.last = chosen;
    return chosen;
  }

  point(one, cx, cy) {
    const { limit, share, risk } = this.axis;
    const value = share ? percent(one.x) : show(one.x);
    const words =
      limit === null
        ? `caution ${show(one.caution)}: return ${show(one.expected_return)}, risk ${value}`
        : `${risk} ${value}: return ${show(one.expected_return)}`;
    const target = node("circle", { class: "target", cx, cy, r: 13, tabindex: 0, role: "button", "aria-label": words });
    const title = node("title", {});
    title.textContent = words;
    target.append(title);
    target.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.choose(one, limit);
    });
    return [target, node("circle", { class: "point", cx, cy, r: 4 })];
  }
}

function axes(x, y, width, height, { risk, share, limit }) {
  const floor = height - SPACE.bottom;
  const parts = [];
  for (const tick of y.ticks) {
    const at = y.place(tick);
    parts.push(node("line", { class: "axis", x1: SPACE.left, x2: width - SPACE.right, y1: at, y2: at }));
    parts.push(label(SPACE.left - 8, at + 4, y.text(tick), "end"));
  }
  for (const tick of x.ticks) parts.push(label(x.place(tick), floor + 17, x.text(tick), "middle"));
  parts.push(node("line", { class: "axis", x1: SPACE.left, x2: SPACE.left, y1: SPACE.top, y2: floor }));
  parts.push(node("line", { class: "axis", x1: SPACE.left, x2: width - SPACE.right, y1: floor, y2: floor }));
  const name = `${limit === null ? "risk: " : ""}${risk}${share ? " (%)" : ""} →`;
  parts.push(label(width - SPACE.right, height - 4, name, "end"));
  parts.push(label(SPACE.left + 6, SPACE.top + 2, "↑ expected return", "start"));
  return parts;
}
