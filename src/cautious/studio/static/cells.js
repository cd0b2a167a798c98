// How one cell looks: its mark, how much time is spent there, and where the policy goes.

export const VECTORS = { up: [0, -1], right: [1, 0], down: [0, 1], left: [-1, 0] };
const OPACITIES = 10;
const NAMES =
  ["paper", "line", "wall", "floor", "visit", "danger", "goal", "reward", "arrow", "soft", "accent", "ink", "walker",
    "act0", "act1", "act2", "act3", "act4", "act5"];

/** The colours of the present theme. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** A cell at (x, y); `visited` from 0 to 1 or null. */
export function drawCell(pen, x, y, size, mark, isDanger, visited, theme) {
  pen.fillStyle = mark === "#" ? theme.wall : theme.floor;
  pen.fillRect(x, y, size, size);
  if (mark === "#") return;
  if (visited !== null && visited > 0) {
    pen.globalAlpha = 0.08 + 0.72 * visited;
    pen.fillStyle = theme.visit;
    pen.fillRect(x, y, size, size);
    pen.globalAlpha = 1;
  }
  if (isDanger) hatch(pen, x, y, size, theme.danger);
  if (mark === "G") flag(pen, x, y, size, theme);
  else if (mark === "R") star(pen, x + size * 0.5, y + size * 0.52, size * 0.44, theme.reward);
  else if (mark !== "." && mark !== "D") letter(pen, x, y, size, mark, theme);
}

function hatch(pen, x, y, size, colour) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, size, size);
  pen.clip();
  pen.globalAlpha = 0.2;
  pen.fillStyle = colour;
  pen.fillRect(x, y, size, size);
  pen.globalAlpha = 0.75;
  pen.strokeStyle = colour;
  pen.lineWidth = Math.max(1, size * 0.045);
  pen.beginPath();
  const gap = size / 3;
  // lines of neighbouring cells meet, so that an area reads as one
  for (let k = -3; k < 3; k += 1) {
    pen.moveTo(x + (k + 0.5) * gap, y + size);
    pen.lineTo(x + (k + 3.5) * gap, y);
  }
  pen.stroke();
  pen.restore();
}

function flag(pen, x, y, size, theme) {
  pen.fillStyle = theme.goal;
  pen.globalAlpha = 0.22;
  pen.fillRect(x, y, size, size);
  pen.globalAlpha = 1;
  pen.strokeStyle = theme.goal;
  pen.lineWidth = Math.max(1.2, size * 0.07);
  pen.beginPath();
  pen.moveTo(x + size * 0.34, y + size * 0.82);
  pen.lineTo(x + size * 0.34, y + size * 0.18);
  pen.stroke();
  pen.beginPath();
  pen.moveTo(x + size * 0.34, y + size * 0.18);
  pen.lineTo(x + size * 0.76, y + size * 0.33);
  pen.lineTo(x + size * 0.34, y + size * 0.5);
  pen.closePath();
  pen.fill();
}

function star(pen, x, y, radius, colour) {
  pen.beginPath();
  for (let k = 0; k < 10; k += 1) {
    const angle = -Math.PI / 2 + (k * Math.PI) / 5;
    const r = k % 2 === 0 ? radius : radius * 0.45;
    pen.lineTo(x + r * Math.cos(angle), y + r * Math.sin(angle));
  }
  pen.closePath();
  // pale enough for the arrows on it
  pen.globalAlpha = 0.6;
  pen.fillStyle = colour;
  pen.fill();
  pen.globalAlpha = 1;
}

function letter(pen, x, y, size, text, theme) {
  const middle = size * 0.2;
  pen.fillStyle = theme.ink;
  pen.beginPath();
  pen.arc(x + middle, y + middle, size * 0.165, 0, 2 * Math.PI);
  pen.fill();
  pen.fillStyle = theme.paper;
  pen.font = `700 ${size * 0.24}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(text, x + middle, y + middle + size * 0.015);
}

/** Arrows of many cells, drawn together: a stroke for each of a few opacities instead of one for each arrow. */
export class Arrows {
  constructor() {
    this.groups = new Map();
  }

  /** An arrow from the middle of a cell; length and opacity grow with the chance. */
  add(x, y, size, direction, chance, strength) {
    const [dx, dy] = VECTORS[direction];
    const length = size * (0.14 + 0.26 * chance);
    const head = size * (0.09 + 0.06 * chance);
    const [cx, cy] = [x + size / 2, y + size / 2];
    const [tx, ty] = [cx + dx * length, cy + dy * length];
    const [nx, ny] = [tx - dx * head, ty - dy * head];
    // the arrow of a sure action is centred, those of a mixture leave from the middle
    const back = length * chance ** 4 * 0.8;
    const { shafts, heads } = this.group(Math.round(OPACITIES * strength * (0.25 + 0.75 * chance)));
    shafts.moveTo(cx - dx * back, cy - dy * back);
    shafts.lineTo(nx, ny);
    heads.moveTo(tx, ty);
    heads.lineTo(nx - dy * head * 0.8, ny + dx * head * 0.8);
    heads.lineTo(nx + dy * head * 0.8, ny - dx * head * 0.8);
    heads.closePath();
  }

  group(opacity) {
    if (!this.groups.has(opacity)) this.groups.set(opacity, { shafts: new Path2D(), heads: new Path2D() });
    return this.groups.get(opacity);
  }

  draw(pen, size, colour) {
    pen.strokeStyle = pen.fillStyle = colour;
    pen.lineWidth = Math.max(1, size * 0.055);
    for (const [opacity, { shafts, heads }] of this.groups) {
      pen.globalAlpha = opacity / OPACITIES;
      pen.stroke(shafts);
      pen.fill(heads);
    }
    pen.globalAlpha = 1;
  }
}
