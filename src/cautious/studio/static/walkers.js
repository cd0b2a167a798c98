// Walkers on the maps of a page: their clock, their controls, and how they look.

import { colours } from "./cells.js";
import { percent } from "./numbers.js";
import { TRACE, Walk } from "./walk.js";

const SEED = 20;
const COUNTS = [1, 10, 100];
const SLOWEST = 1;
const FASTEST = 60;
// faster than this nobody sees a walker between two cells
const SMOOTH = 15;
const STILL_SPEED = 2;
const FLASH_MILLISECONDS = 600;
// no jump after the page was out of sight
const LONGEST_FRAME = 100;
const at = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** One map with walkers on it: a canvas above the map's own, and where a place of the model is on it. */
export class WalkedMap {
  constructor(canvas, map, words) {
    Object.assign(this, { canvas, map, words, walk: null, flashes: [] });
    this.pen = canvas.getContext("2d");
  }

  /** `spotOf` gives the middle of a place of the model, in pixels. */
  follow(model, spotOf, count) {
    this.spotOf = spotOf;
    if (this.walk === null) this.walk = new Walk(model, count, SEED);
    else this.walk.follow(model);
    this.tell();
  }

  clear() {
    this.walk = null;
    this.flashes = [];
    this.pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.words.textContent = "";
  }

  step(now) {
    this.walk.step();
    for (const { place, flash, number } of this.walk.walkers)
      if (flash) this.flashes.push({ place, number, since: now });
    this.tell();
  }

  tell() {
    const { finished, hit } = this.walk.shares;
    const { longest, one_for_all_steps: isOne } = this.walk.model;
    const unit = longest === null ? "walkers" : finished === 1 ? "walk ended" : "walks ended";
    const share = finished === 0 || this.walk.isDanger.size === 0 ? "" : `, ${percent(hit / finished)} entered danger`;
    const text = `${finished} ${unit}${share}`;
    this.words.textContent = isOne ? `${text}; one policy stands for all steps` : text;
    Object.assign(this.words.dataset, { finished, hit });
  }

  /** The walkers, `part` of a step after their last one. */
  draw(part, now, theme) {
    const { pen, canvas, map } = this;
    const scale = devicePixelRatio || 1;
    const [width, height] = map.extent;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    if (this.walk === null) return;
    const { walkers } = this.walk;
    const spread = walkers.length === 1 ? 0 : 0.26 * map.size;
    const spots = walkers.map(({ number, trace }) => trace.map((place) => shifted(this.spotOf(place), number, spread)));
    this.drawTraces(spots, part, theme);
    this.drawFlashes(now, theme, spread);
    const radius = Math.min(9, Math.max(2.2, map.size * (walkers.length > 20 ? 0.1 : 0.15)));
    walkers.forEach(({ entered }, k) => {
      const [x, y] = between(spots[k].at(-2) ?? spots[k].at(-1), spots[k].at(-1), part);
      pen.beginPath();
      pen.arc(x, y, radius, 0, 2 * Math.PI);
      pen.fillStyle = entered ? theme.danger : theme.walker;
      pen.fill();
      pen.lineWidth = Math.max(1, radius * 0.3);
      pen.strokeStyle = theme.paper;
      pen.stroke();
    });
  }

  drawTraces(spots, part, theme) {
    const { pen, map } = this;
    pen.strokeStyle = theme.walker;
    pen.lineWidth = Math.max(1, map.size * (spots.length > 20 ? 0.03 : 0.06));
    pen.lineCap = "round";
    // one stroke for each age: the older, the paler
    for (let age = 0; age < TRACE - 1; age += 1) {
      pen.globalAlpha = (0.75 * (1 - age / (TRACE - 1)) * 10) / (10 + spots.length / 4);
      pen.beginPath();
      for (const spot of spots) {
        const [from, to] = [spot.at(-2 - age), spot.at(-1 - age)];
        if (from === undefined) continue;
        pen.moveTo(...from);
        pen.lineTo(...(age === 0 ? between(from, to, part) : to));
      }
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  drawFlashes(now, theme, spread) {
    const { pen, map } = this;
    this.flashes = this.flashes.filter(({ since }) => now - since < FLASH_MILLISECONDS);
    for (const { place, number, since } of this.flashes) {
      const grown = calm.matches ? 0.5 : (now - since) / FLASH_MILLISECONDS;
      pen.globalAlpha = 1 - grown;
      pen.strokeStyle = theme.danger;
      pen.lineWidth = Math.max(1.5, map.size * 0.09);
      pen.beginPath();
      pen.arc(...shifted(this.spotOf(place), number, spread), map.size * (0.15 + 0.5 * grown), 0, 2 * Math.PI);
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }
}

/** The clock and the controls; all maps on the screen go in step. */
export class Walkers {
  /** `wanted(isRunning)` is called when somebody wants to see walkers, or no more. */
  constructor(wanted) {
    this.wanted = wanted;
    this.maps = [];
    this.count = 10;
    this.isRunning = !calm.matches;
    this.isNeeded = false;
    this.last = this.part = 0;
    at("walk-play").addEventListener("click", () => this.run(!this.isRunning));
    at("walk-counts").replaceChildren(...COUNTS.map((count) => this.choice(count)));
    at("walk-speed").addEventListener("input", () => this.tell());
    for (const query of ["(prefers-color-scheme: dark)", "(prefers-reduced-motion: reduce)"])
      matchMedia(query).addEventListener("change", () => this.repaint());
    this.tell();
  }

  /** Which maps are on the screen. */
  show(maps) {
    for (const one of this.maps) if (!maps.includes(one)) one.clear();
    this.maps = maps;
    this.wake();
  }

  /** What the walkers of a map follow. */
  follow(map, model, spotOf) {
    map.follow(model, spotOf, this.count);
    this.wake();
  }

  run(isRunning) {
    this.isRunning = isRunning;
    this.tell();
    this.wanted(isRunning);
    this.wake();
  }

  repaint() {
    this.theme = null;
    this.wake();
  }

  get speed() {
    const chosen = SLOWEST * (FASTEST / SLOWEST) ** (at("walk-speed").valueAsNumber / 100);
    return calm.matches ? Math.min(chosen, STILL_SPEED) : chosen;
  }

  choice(count) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = count;
    button.setAttribute("aria-label", count === 1 ? "One walker" : `${count} walkers`);
    button.dataset.count = count;
    button.addEventListener("click", () => {
      this.count = count;
      for (const { walk } of this.maps) walk?.resize(count);
      for (const map of this.maps) if (map.walk !== null) map.tell();
      this.tell();
      this.wake();
    });
    return button;
  }

  tell() {
    at("walk-play").textContent = this.isRunning ? "Pause" : "Walk";
    for (const button of at("walk-counts").children)
      button.setAttribute("aria-pressed", String(Number(button.dataset.count) === this.count));
    at("walk-speed").setAttribute("aria-valuetext", `${Math.round(this.speed)} steps a second`);
  }

  wake() {
    if (this.isNeeded) return;
    this.isNeeded = true;
    requestAnimationFrame((now) => this.frame(now));
  }

  frame(now) {
    this.isNeeded = false;
    this.theme ??= colours();
    const walked = this.maps.filter((map) => map.walk !== null);
    if (this.isRunning) this.part += (Math.min(now - this.last, LONGEST_FRAME) * this.speed) / 1000;
    this.last = now;
    for (; this.part >= 1; this.part -= 1) for (const map of walked) map.step(now);
    const part = calm.matches || this.speed > SMOOTH ? 1 : this.part;
    for (const map of walked) map.draw(part, now, this.theme);
    if (this.isRunning && walked.length > 0) this.wake();
  }
}

function between([x, y], [u, v], part) {
  return [x + part * (u - x), y + part * (v - y)];
}

/** A place of one of many walkers: beside the middle, so that all can be seen. */
function shifted(spot, number, spread) {
  if (spread === 0) return spot;
  // the golden angle fills a disc evenly
  const [angle, far] = [number * 2.39996, spread * Math.sqrt(((number * 0.618) % 1) + 0.02)];
  return [spot[0] + far * Math.cos(angle), spot[1] + far * Math.sin(angle)];
}
