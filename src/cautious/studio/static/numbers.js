// Numbers for people, and the logarithmic scale of the caution.

const LOWEST = -2;
const DECADES = 6;
export const STEPS = 600;

/** A number in few digits; a dash where there is none. */
export function show(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Math.abs(value) < 1e-12) return "0";
  const size = Math.abs(value);
  const rounded = Number(value.toPrecision(digits));
  const text = size >= 1e6 || size < 1e-4 ? rounded.toExponential() : String(rounded);
  return text.replaceAll("-", "−");
}

export function percent(share) {
  if (share > 0 && share < 5e-5) return "< 0.01 %";
  return `${(100 * share).toFixed(share < 0.0995 ? 2 : 1)} %`;
}

/** Slider position to caution: 0 is 0, the rest is logarithmic. */
export function cautionAt(position) {
  if (position <= 0) return 0;
  return Number((10 ** (LOWEST + (DECADES * (position - 1)) / (STEPS - 1))).toPrecision(3));
}

export function positionOf(caution) {
  if (caution <= 0) return 0;
  const position = 1 + ((Math.log10(caution) - LOWEST) / DECADES) * (STEPS - 1);
  return Math.min(STEPS, Math.max(1, Math.round(position)));
}

/** Marks below the slider: [position, text]. */
export function marks() {
  const found = [[0, "0"]];
  for (let power = LOWEST + 1; power <= LOWEST + DECADES; power += 1) {
    const value = 10 ** power;
    found.push([positionOf(value), value >= 1000 ? `${value / 1000},000` : String(value)]);
  }
  return found;
}
