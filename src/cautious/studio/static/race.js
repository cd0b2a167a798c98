// The learning race: three methods, more and more samples, and what their policies are worth in the true model.

import { WorldMap } from "./map.js";
import { show } from "./numbers.js";
import { label, node, scale } from "./svg.js";
import { arraysOf } from "./walk.js";

const METHODS = {
  paper: ["Printed algorithm", "danger"],
  "primal-dual": ["Primal-dual", "visit"],
  "plug-in": ["Plug-in (counts)", "goal"],
};
const SPACE = { left: 62, right: 118, top: 16, bottom: 40 };
const WHY = {
  done: "The race is over.",
  stopped: "Stopped.",
  time: "Stopped: a race ends after three minutes.",
  lost: "The connection was lost, and the race with it; start again.",
  changed: "The problem has changed; start again.",
};
const LEAST_LABEL_GAP = 15;
const at = (id) => document.getElementById(id);

export class Race {
  constructor(link, answerOf) {
    Object.assign(this, { link, answerOf, statement: null, number: null, isPaused: false });
    this.clear();
    const made = Object.entries(METHODS).map(([name, [title, colour]]) => [name, panel(title, colour)]);
    this.panels = Object.fromEntries(made);
    at("race-maps").replaceChildren(...Object.values(this.panels).map(({ box }) => box));
    for (const one of Object.values(this.panels)) one.map = new WorldMap(one.canvas, () => 0.36 * innerHeight);
    at("race-start").addEventListener("click", () => this.start());
    at("race-stop").addEventListener("click", () => this.link.control("stop"));
    at("race-pause").addEventListener("click", () => this.pause());
    new ResizeObserver(() => this.draw()).observe(at("race-chart"));
  }

  clear() {
    this.points = Object.fromEntries(Object.keys(METHODS).map((name) => [name, []]));
    this.facts = null;
  }

  get isRunning() {
    return this.number !== null;
  }

  start() {
    const samples = Number(at("race-samples").value);
    if (!this.link.race(this.statement, samples)) return;
    this.number = this.link.number;
    this.raced = this.statement;
    this.isPaused = false;
    this.clear();
    for (const { map, words } of Object.values(this.panels)) {
      map.show(null);
      words.textContent = "";
    }
    this.say("Solving the problem exactly, for comparison…");
  }

  pause() {
    this.isPaused = !this.isPaused;
    this.link.control(this.isPaused ? "pause" : "resume");
    this.tell();
  }

  /** The statement on the screen, and its map. A race about another one ends. */
  show(statement, rows) {
    this.statement = statement;
    if (this.raced !== undefined && this.raced !== statement) {
      if (this.isRunning) this.link.control("stop");
      this.end("changed");
      this.raced = undefined;
    }
    for (const { map, frame } of Object.values(this.panels)) {
      frame.hidden = rows === null;
      if (rows !== null) map.paint(rows, statement.danger);
    }
  }

  /** The connection is gone. */
  lost() {
    if (this.isRunning) this.end("lost");
  }

  refused(text) {
    this.number = null;
    this.say(text);
  }

  end(why) {
    this.number = null;
    this.say(WHY[why]);
  }

  /** What the server says of the race. */
  take(head, payload, statement, rows) {
    if (head.number !== this.number) return;
    const one = this.panels[head.method];
    if (head.event === "start") {
      this.facts = head;
      this.say("");
    } else if (head.event === "progress") {
      one.words.textContent = `learning from ${head.size.toLocaleString("en")} samples…`;
    } else if (head.event === "refused") {
      one.words.textContent = head.why;
    } else if (head.event === "point") {
      this.points[head.method].push(head);
      const seconds = head.seconds < 0.1 ? "in less than 0.1 s" : `in ${head.seconds.toFixed(1)} s`;
      one.words.textContent = `${head.size.toLocaleString("en")} samples ${seconds}: ${show(head.objective)}`;
      const { policy, occupancy } = arraysOf(head, payload);
      if (rows !== null) one.map.show(this.answerOf(statement, rows, policy, occupancy, head));
    } else this.end(head.why);
    this.draw();
  }

  say(words) {
    at("race-words").textContent = words;
    this.tell();
  }

  tell() {
    at("race-start").disabled = this.isRunning;
    at("race-stop").disabled = at("race-pause").disabled = !this.isRunning;
    at("race-pause").textContent = this.isPaused ? "Resume" : "Pause";
  }

  draw() {
    const box = at("race-chart");
    const { clientWidth: width, clientHeight: height } = box;
    if (this.facts === null || width < 120) {
      box.replaceChildren();
      return;
    }
    const { optimum, sizes, proved } = this.facts;
    const worths = Object.values(this.points).flat().map((one) => one.objective).filter((one) => one !== null);
    const x = scale([sizes[0], sizes.at(-1)].map(Math.log10), SPACE.left, width - SPACE.right);
    const y = scale([optimum, ...worths], height - SPACE.bottom, SPACE.top);
    const name = "What the policies of the three methods are worth, against the number of samples";
    const figure = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": name });
    figure.append(...axes(x, y, width, height, sizes));
    const best = y.to(optimum);
    figure.append(node("line", { class: "best", x1: SPACE.left, x2: width - SPACE.right, y1: best, y2: best }));
    const labels = [{ y: best, text: proved ? "best possible" : "best found", colour: "ink" }];
    for (const [method, points] of Object.entries(this.points)) {
      const [title, colour] = METHODS[method];
      const drawn = points.filter((one) => one.objective !== null);
      const corners = drawn.map((one) => [x.to(Math.log10(one.size)), y.to(one.objective)]);
      const way = corners.map((one) => one.join(",")).join(" ");
      figure.append(node("polyline", { class: `race-line ${colour}`, points: way }));
      for (const [cx, cy] of corners) figure.append(node("circle", { class: `race-point ${colour}`, cx, cy, r: 3.5 }));
      if (corners.length > 0) labels.push({ y: corners.at(-1)[1], text: title, colour });
    }
    labels.sort((a, b) => a.y - b.y);
    labels.forEach((one, k) => {
      // labels never stand on each other
      if (k > 0) one.y = Math.max(one.y, labels[k - 1].y + LEAST_LABEL_GAP);
      const text = label(width - SPACE.right + 8, one.y + 4, one.text, "start");
      text.setAttribute("class", `race-name ${one.colour}`);
      figure.append(text);
    });
    box.replaceChildren(figure);
  }
}

function axes(x, y, width, height, sizes) {
  const floor = height - SPACE.bottom;
  const parts = [];
  for (const tick of y.ticks) {
    const up = y.place(tick);
    parts.push(node("line", { class: "axis", x1: SPACE.left, x2: width - SPACE.right, y1: up, y2: up }));
    parts.push(label(SPACE.left - 8, up + 4, y.text(tick), "end"));
  }
  for (let power = Math.ceil(Math.log10(sizes[0])); power <= Math.log10(sizes.at(-1)) + 1e-9; power += 1)
    parts.push(label(x.to(power), floor + 17, (10 ** power).toLocaleString("en"), "middle"));
  parts.push(node("line", { class: "axis", x1: SPACE.left, x2: width - SPACE.right, y1: floor, y2: floor }));
  parts.push(label(width - SPACE.right, height - 4, "samples →", "end"));
  parts.push(label(SPACE.left + 6, SPACE.top - 4, "↑ objective", "start"));
  return parts;
}

function panel(title, colour) {
  const box = document.createElement("div");
  const [heading, words, frame, canvas] = ["h2", "p", "div", "canvas"].map((tag) => document.createElement(tag));
  box.className = "panel";
  heading.textContent = title;
  heading.className = `race-name ${colour}`;
  words.className = "soft figures";
  frame.className = "frame";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `Map of the policy of: ${title}`);
  frame.append(canvas);
  box.append(heading, words, frame);
  return { box, words, frame, canvas };
}
