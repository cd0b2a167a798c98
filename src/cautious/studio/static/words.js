// What the words of the page mean: shown when one is pointed at, focused or touched.

const WORDS = {
  ahead: "How far ahead rewards count: for ever with a discount, some steps, the average per step, or until the end.",
  discount: "How much less a reward counts with each step. With 0.95, a reward in fourteen steps counts half.",
  slip: "The chance that a move goes to one of its two sides instead, half of it to each.",
  limit: "Something that must hold, whatever it costs. Its price says what one more unit of room is worth.",
  risk: "A number that should be small: a function of how time is spent.",
  caution: "How many units of return one unit of risk costs. 0 means that only the return counts.",
  return: "The mean of the sum of all rewards of an episode, each multiplied by its discount.",
  danger: "The share of time in what is marked as danger; sooner time counts more where there is a discount.",
  objective: "Expected return minus caution times risk: what the policy makes as large as possible.",
  frontier: "One best policy for each of several cautions, or of several bounds of a limit: what safety costs.",
  neutral: "Only the expected return counts: no risk, no limits.",
  episode: "One run from the start, until an end or for as many steps as asked.",
  walkers: "They follow the policy step by step, with the chances of the model. A walk ends where it cannot go on, \
after the last step, or when 99 % of the weight of a discounted return is behind it.",
  samples: "One sample is one tried step: a state, an action, where it led and what it paid.",
};
const GAP = 6;
const at = (id) => document.getElementById(id);

/** Make every element with `data-word` explain itself. */
export function explainWords() {
  for (const element of document.querySelectorAll("[data-word]")) {
    element.tabIndex = 0;
    element.classList.add("word");
    element.setAttribute("aria-describedby", "tip");
    for (const kind of ["pointerenter", "focus"]) element.addEventListener(kind, () => show(element));
    for (const kind of ["pointerleave", "blur"]) element.addEventListener(kind, hide);
    // inside a label a touch would go to its field
    element.addEventListener("click", (event) => {
      event.preventDefault();
      show(element);
    });
  }
  addEventListener("keydown", (event) => event.key === "Escape" && hide());
  addEventListener("scroll", hide, true);
}

function show(element) {
  const tip = at("tip");
  tip.textContent = WORDS[element.dataset.word];
  tip.hidden = false;
  const [word, own] = [element.getBoundingClientRect(), tip.getBoundingClientRect()];
  const left = Math.max(GAP, Math.min(word.left, innerWidth - own.width - GAP));
  const below = word.bottom + GAP;
  const top = below + own.height > innerHeight ? word.top - own.height - GAP : below;
  tip.style.left = `${left}px`;
  tip.style.top = `${Math.max(GAP, top)}px`;
}

function hide() {
  at("tip").hidden = true;
}
