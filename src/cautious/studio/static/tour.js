// A tour of two minutes: it is offered once, can be left at any time, and starts again from the menu.

const SEEN = "cautious-studio-toured=1";
const A_YEAR = 31_536_000;
// what is pointed at, in which view, and what is said
const STEPS = [
  [
    "#map-frame",
    "world",
    "The world",
    "A cart goes from S to the flag. Every step costs a little, orange cells cost a lot, and now and then it \
slips to one side.",
  ],
  [
    "#map-frame",
    "world",
    "The policy",
    "Arrows show what to do; the longer one is taken more often. The darker the blue, the more time is spent \
there. Nobody goes where arrows are pale.",
  ],
  [
    "#walk-box",
    "world",
    "Walkers",
    "They follow the arrows, slips included. Those that enter danger flash and turn orange. Try a hundred.",
  ],
  [
    "#caution-box",
    "world",
    "Caution",
    "What one unit of risk costs. Drag it to 0: only the return counts, and the short way beside danger is taken. \
Drag it to the right, and the way round is worth it.",
  ],
  [
    "#risk",
    "world",
    "Risk",
    "What you want little of: here unsteady points. Other choices look at the time in danger, or at the worst \
steps. The sentence below says what is chosen.",
  ],
  [
    "#limits",
    "world",
    "Limits",
    "Caution is a price. A limit must hold, whatever it costs: tick it, and the page says what one more \
percentage point would be worth.",
  ],
  [
    "#verdict",
    "world",
    "The proof",
    "Every answer is checked by code apart from the solver. \"Within 2e-07\" means that no policy at all is \
better by more than that.",
  ],
  [
    "#trade",
    "world",
    "What caution buys",
    "Each point is a best policy for one caution. Click one to go there.",
  ],
  [
    "#tools",
    "world",
    "Your own world",
    "Paint walls, danger, goals and the start. Or open a model of your own: Files, Open a model.",
  ],
  [
    "#tab-sides",
    "sides",
    "Side by side",
    "The same luck with and without caution; below, the return of one episode, and the worst 5 % of the episodes.",
  ],
  [
    "#tab-race",
    "race",
    "Learning race",
    "Three methods learn this world from samples alone. Start it to see how far each one comes.",
  ],
];
const at = (id) => document.getElementById(id);

export class Tour {
  /** `show(view)` brings a view to the screen. */
  constructor(show) {
    this.show = show;
    this.step = -1;
    at("tour-next").addEventListener("click", () => this.go(this.step + 1));
    at("tour-back").addEventListener("click", () => this.go(this.step - 1));
    at("tour-end").addEventListener("click", () => this.end());
    at("tour-again").addEventListener("click", () => {
      at("files").open = false;
      this.go(0);
      at("tour-next").focus();
    });
    addEventListener("keydown", (event) => event.key === "Escape" && !at("tour").hidden && this.end());
  }

  /** The invitation, to who has not seen it on this computer. */
  offer() {
    if (!document.cookie.includes(SEEN)) this.go(-1);
  }

  go(step) {
    this.step = step;
    this.point(null);
    if (step >= STEPS.length) {
      this.end();
      return;
    }
    at("tour").hidden = false;
    at("tour-back").hidden = step <= 0;
    at("tour-next").textContent = step < 0 ? "Show me" : step === STEPS.length - 1 ? "Done" : "Next";
    at("tour-end").textContent = step < 0 ? "Not now" : "End the tour";
    at("tour-count").textContent = step < 0 ? "" : `${step + 1} of ${STEPS.length}`;
    if (step < 0) {
      at("tour-title").textContent = "New here?";
      at("tour-text").textContent = "A tour of two minutes shows what everything is for.";
      return;
    }
    const [target, view, title, text] = STEPS[step];
    this.show(view);
    at("tour-title").textContent = title;
    at("tour-text").textContent = text;
    this.point(document.querySelector(target));
  }

  point(element) {
    for (const one of document.querySelectorAll(".toured")) one.classList.remove("toured");
    element?.classList.add("toured");
    element?.scrollIntoView({ block: "center" });
  }

  end() {
    at("tour").hidden = true;
    this.point(null);
    if (this.step >= 0) this.show("world");
    // for every port of this computer, since the next studio has another one
    document.cookie = `${SEEN}; path=/; max-age=${A_YEAR}; SameSite=Strict`;
  }
}
