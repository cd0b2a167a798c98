// How the return of one episode is distributed on both sides: bars of equal width, the mean and the worst 5 %.

import { show } from "./numbers.js";
import { label, node, scale } from "./svg.js";

const SPACE = { left: 112, right: 14, top: 8, bottom: 34 };
const BARS = 64;
const TITLES = { left: "Risk-neutral", right: "Cautious" };
// bars lower than this would not be seen
const LEAST_HEIGHT = 1.5;

export class Returns {
  constructor(box, words) {
    Object.assign(this, { box, words });
    this.clear();
    new ResizeObserver(() => this.draw()).observe(box);
  }

  clear() {
    this.found = {};
    this.box.replaceChildren();
    this.words.textContent = "";
  }

  wait() {
    this.box.classList.add("waiting");
  }

  refuse(text) {
    this.clear();
    this.box.classList.remove("waiting");
    this.words.textContent = text;
  }

  take(head, arrays) {
    this.found[head.side] = { ...head, ...arrays };
    this.box.classList.remove("waiting");
    this.draw();
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.box;
    const sides = Object.keys(TITLES).filter((side) => side in this.found);
    if (sides.length === 0 || width < 160) return;
    const all = sides.map((side) => this.found[side]);
    const low = Math.min(...all.map((one) => one.mean[0]));
    const high = Math.max(...all.map((one) => one.mean.at(-1)));
    const x = scale([low, high], SPACE.left, width - SPACE.right);
    const each = (height - SPACE.top - SPACE.bottom) / 2;
    const figure = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": this.inWords(sides) });
    const floor = height - SPACE.bottom;
    for (const tick of x.ticks) {
      const at = x.place(tick);
      figure.append(node("line", { class: "axis", x1: at, x2: at, y1: SPACE.top, y2: floor }));
      figure.append(label(at, floor + 16, x.text(tick), "middle"));
    }
    figure.append(label(width - SPACE.right, height - 3, "return of one episode →", "end"));
    sides.forEach((side, k) => {
      const bottom = SPACE.top + each * (k + 1) - 2;
      figure.append(...strip(this.found[side], TITLES[side], [low, high], x, bottom, each - 10, width));
    });
    this.box.replaceChildren(figure);
    this.words.textContent = `${this.inWords(sides)} Computed from the model, not simulated.`;
  }

  inWords(sides) {
    const one = (side) => {
      const { expected, worst } = this.found[side];
      return `${TITLES[side]}: mean ${show(expected)}, mean of the worst 5 % of the episodes ${show(worst)}.`;
    };
    return sides.map(one).join(" ");
  }
}

/** One distribution: its bars, those of the worst share in another colour, and two marks. */
function strip({ mass, mean, expected, worst, share }, title, [low, high], x, bottom, height, width) {
  const heights = new Float64Array(BARS);
  const bad = new Float64Array(BARS);
  let before = 0;
  for (let k = 0; k < mass.length; k += 1) {
    const bar = Math.min(BARS - 1, Math.floor((BARS * (mean[k] - low)) / (high - low || 1)));
    heights[bar] += mass[k];
    bad[bar] += Math.max(0, Math.min(mass[k], share - before));
    before += mass[k];
  }
  const most = Math.max(...heights);
  const step = (x.to(high) - x.to(low)) / BARS || 6;
  const parts = [node("line", { class: "axis", x1: SPACE.left, x2: width - SPACE.right, y1: bottom, y2: bottom })];
  for (let k = 0; k < BARS; k += 1) {
    if (heights[k] <= 0) continue;
    const [whole, tail] = [heights[k], bad[k]].map((one) => (height * one) / most);
    const place = { x: x.to(low) + k * step, width: Math.max(step - 0.8, 1) };
    const tall = Math.max(whole, LEAST_HEIGHT);
    parts.push(node("rect", { class: "bar", ...place, y: bottom - tall, height: tall }));
    // rare, but that is what this is about
    const red = bad[k] > 0 ? Math.max(tail, LEAST_HEIGHT) : 0;
    if (red > 0) parts.push(node("rect", { class: "bar worst", ...place, y: bottom - red, height: red }));
  }
  const line = (kind, value) => {
    const at = x.to(value);
    return node("line", { class: kind, x1: at, x2: at, y1: bottom - height, y2: bottom });
  };
  parts.push(line("tail", worst), line("mean", expected));
  const names = [
    [title, "strong"],
    [`mean ${show(expected, 3)}`, ""],
    [`worst 5 %: ${show(worst, 3)}`, "danger"],
  ];
  names.forEach(([text, kind], k) => {
    const made = label(2, bottom - height + 14 + 15 * k, text, "start");
    made.setAttribute("class", kind);
    parts.push(made);
  });
  return parts;
}
