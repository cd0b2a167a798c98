// The answer in figures and words, and how long it took.

import { percent, show } from "./numbers.js";

const at = (id) => document.getElementById(id);

/** Figures and the verdict of an answer. */
export function readOut(head, hasRisk, step) {
  at("return").textContent = show(head.expected_return);
  const risk = head.risk_is_share ? percent(head.risk ?? 0) : show(head.risk);
  at("risk-value").textContent = hasRisk ? (head.risk_infinite ? "∞" : risk) : "–";
  // without a risk it is the return, and of a barrier it holds a logarithm
  at("objective-card").hidden = !hasRisk || head.risk_name !== "";
  at("risk-card").hidden = !hasRisk;
  at("objective").textContent = show(head.objective);
  at("danger-card").hidden = head.danger_share === null;
  at("danger-name").textContent = head.visits ? "Visits to danger" : "Time in danger";
  at("danger-unit").textContent = head.visits ? "expected" : step > 0 ? "at this step" : "of the time";
  at("share-name").textContent = head.visits ? "Expected visits" : "Share of time";
  if (head.danger_share !== null) at("danger").textContent = (head.visits ? show : percent)(head.danger_share);
  // the same words again would be read aloud again
  if (at("verdict").textContent !== head.verdict) at("verdict").textContent = head.verdict;
  at("verdict").className = head.status === "SOLVED" ? "good" : "warn";
  at("verdict").title = head.detail;
}

/** No answer at all: nothing may look like one. */
export function readNothing() {
  for (const id of ["return", "risk-value", "danger", "objective"]) at(id).textContent = "–";
  at("verdict").textContent = "No answer to this question; the line at the top says why.";
  at("verdict").className = at("verdict").title = "";
  at("timing").textContent = "\u00a0";
}

/** No answer for a while. */
export function readWaiting() {
  at("verdict").textContent = "Solving…";
  at("verdict").className = "";
  at("timing").textContent = "The first answer takes longer: the solvers are being loaded.";
}

/** How long it took, from the question to the screen. */
export function readTime(head, asked) {
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    // a task after a frame runs when the frame is on the screen
    port1.onmessage = () => {
      const [solving, all] = [1000 * head.seconds, performance.now() - asked].map(Math.round);
      at("timing").textContent = `${solving} ms to solve and prove (${head.method}), ${all} ms until it was painted.`;
      at("timing").dataset.number = head.number;
    };
    port2.postMessage(0);
  });
}

/** One sentence above everything; none hides it. */
export function banner(text) {
  at("banner").textContent = text;
  at("banner").hidden = text === "";
}

/** A model in figures. */
export function sizes(own) {
  const count = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
  const title = own.title === "" ? "" : `${own.title}: `;
  return `${title}${count(own.n_states, "state")}, ${count(own.n_actions, "action")}, discount ${own.discount}`;
}

/** A message as a sentence. */
export function sentence(message) {
  return message.charAt(0).toUpperCase() + message.slice(1);
}
