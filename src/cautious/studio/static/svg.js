// Parts of a plot: nodes, labels and linear scales.

import { show } from "./numbers.js";

const SVG = "http://www.w3.org/2000/svg";

export function node(name, attributes) {
  const made = document.createElementNS(SVG, name);
  setAttributes(made, attributes);
  return made;
}

export function setAttributes(made, attributes) {
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
}

/** A linear scale with a little air around the values times the factor, and a few round ticks of these. */
export function scale(values, from, to, factor = 1) {
  let low = factor * Math.min(...values);
  let high = factor * Math.max(...values);
  const size = Math.max(Math.abs(low), Math.abs(high));
  // values that differ by rounding only are one value
  const air = high - low > 1e-6 * size ? (high - low) * 0.06 : size * 0.05 || 1;
  low -= air;
  high += air;
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough);
  const ticks = [];
  for (let k = Math.ceil(low / step); k * step <= high; k += 1) ticks.push(k * step);
  const holds = (at) => at >= Math.min(from, to) && at <= Math.max(from, to);
  const place = (tick) => Number((from + ((tick - low) / (high - low)) * (to - from)).toFixed(2));
  return { ticks, holds, place, to: (value) => place(factor * value), text: (tick) => rounded(tick, step) };
}

export function label(x, y, text, anchor) {
  const made = node("text", { x, y, "text-anchor": anchor });
  made.textContent = text;
  return made;
}

/** A tick without digits that only rounding made. */
function rounded(tick, step) {
  return show(Math.abs(tick) < step / 1e6 ? 0 : Number(tick.toPrecision(10)), 6);
}
