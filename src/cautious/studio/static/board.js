// Cells of states that are counts: a small square for each thing that is counted, and below them what is done there.

// more actions than this are told apart by their names, not by colours
const COLOURS = 6;
const LEAST_CHANCE = 0.015;
// below this size of a cell, in pixels, its numbers cannot be read
const LEAST_FOR_TEXT = 34;

export class Board {
  /** `counts` of the `things` in every state, and the names of the actions. */
  constructor({ things, counts }, names) {
    Object.assign(this, { things, counts, names });
    this.most = Math.max(1, ...counts.map((each) => each.reduce((sum, one) => sum + one, 0)));
    this.short = shortened(names);
  }

  get hasColours() {
    return this.names.length <= COLOURS;
  }

  name(state) {
    return this.counts[state].map((count, k) => `${count} ${this.things[k]}`).join(", ");
  }

  /** The content of a cell at (x, y); `chances` are those of the actions. */
  draw(pen, x, y, size, state, chances, theme) {
    const hasText = size >= LEAST_FOR_TEXT;
    if (hasText) {
      pen.fillStyle = theme.ink;
      pen.font = `600 ${Math.min(14, size * 0.2)}px system-ui, sans-serif`;
      pen.textAlign = "left";
      pen.textBaseline = "top";
      pen.fillText(this.counts[state].join(", "), x + size * 0.08, y + size * 0.08);
    }
    const top = hasText ? 0.32 : 0.1;
    this.squares(pen, x + size * 0.08, y + size * top, size * 0.84, size * (0.74 - top), state, theme);
    const bar = [x + size * 0.08, y + size * 0.8, size * 0.84, size * 0.13];
    if (this.hasColours) actionBar(pen, ...bar, chances, theme);
    else if (hasText) this.actionText(pen, x + size / 2, y + size * 0.78, size, chances, theme);
  }

  /** All cells have squares of one size, so that full ones look full. */
  squares(pen, x, y, width, height, state, theme) {
    let [pitch, across] = [0, 1];
    for (let columns = 1; columns <= this.most; columns += 1) {
      const fitting = Math.min(width / columns, height / Math.ceil(this.most / columns), width / 5);
      if (fitting > pitch) [pitch, across] = [fitting, columns];
    }
    let place = 0;
    pen.fillStyle = pen.strokeStyle = theme.ink;
    pen.lineWidth = Math.max(0.8, pitch * 0.1);
    this.counts[state].forEach((count, kind) => {
      for (let k = 0; k < count; k += 1, place += 1) {
        const [left, top] = [x + (place % across) * pitch, y + Math.floor(place / across) * pitch];
        const side = pitch * 0.72;
        const [edge, hollow] = [pen.lineWidth / 2, side - pen.lineWidth];
        if (kind === 0) pen.fillRect(left, top, side, side);
        else pen.strokeRect(left + edge, top + edge, hollow, hollow);
      }
    });
  }

  actionText(pen, middle, top, size, chances, theme) {
    const likely = chances.map((chance, action) => [chance, action]).filter(([chance]) => chance >= 0.05);
    const whole = likely.map(([, action]) => this.names[action]).join(" / ");
    const short = likely.map(([, action]) => this.short[action]).join(" / ");
    pen.font = `${Math.min(12, size * 0.17)}px system-ui, sans-serif`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    // dark blue and hatches are no ground for small text
    pen.globalAlpha = 0.75;
    pen.fillStyle = theme.floor;
    pen.fillRect(middle - size * 0.46, top, size * 0.92, size * 0.18);
    pen.globalAlpha = 1;
    pen.fillStyle = theme.ink;
    pen.fillText(pen.measureText(whole).width < size * 0.92 ? whole : short, middle, top + size * 0.095, size * 0.92);
  }

  /** What the squares and the bars mean. */
  legend() {
    const signs = ["■", "□"];
    const parts = this.things.map((thing, k) => entry("b", signs[k], thing));
    if (!this.hasColours) return [...parts, ...entry("b", "", "below: what is done")].flat();
    const bars = this.names.map((name, action) => {
      const [sign, ...rest] = entry("i", "", name);
      sign.className = "swatch";
      sign.style.background = `var(--act${action})`;
      return [sign, ...rest];
    });
    return [...parts, ...bars].flat();
  }
}

function entry(tag, sign, words) {
  const made = document.createElement(tag);
  made.textContent = sign;
  return [made, ` ${words} `];
}

/** Actions beside each other, as wide as their chances. */
function actionBar(pen, x, y, width, height, chances, theme) {
  let left = x;
  chances.forEach((chance, action) => {
    if (chance < LEAST_CHANCE) return;
    pen.fillStyle = theme[`act${action}`];
    pen.fillRect(left, y, width * chance, height);
    left += width * chance;
  });
}

/** Names without the words that all of them begin with. */
function shortened(names) {
  const words = names.map((name) => name.split(" "));
  let same = 0;
  while (words.every((one) => one.length > same + 1 && one[same] === words[0][same])) same += 1;
  return words.map((one) => one.slice(same).join(" "));
}
