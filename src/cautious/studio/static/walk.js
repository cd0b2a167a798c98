// Walks: agents that follow a policy, step by step, by random numbers that depend on nothing but who walks when.

// steps that a walker stays where it cannot leave before it starts anew
const REST = 5;
export const TRACE = 14;

/** A number in [0, 1) for whole numbers, the same for the same ones: two policies can be tried with the same luck. */
function uniform(...numbers) {
  let hash = 0x9e3779b9;
  for (const number of numbers) {
    hash = Math.imul(hash ^ number, 0x85ebca6b);
    hash ^= hash >>> 13;
    hash = Math.imul(hash, 0xc2b2ae35);
    hash ^= hash >>> 16;
  }
  return (hash >>> 0) / 2 ** 32;
}

/** The index from `first` to `end` that a number in [0, 1) picks by these weights, which sum to about one. */
function pick(weights, first, end, number) {
  let left = number;
  let last = first;
  for (let k = first; k < end; k += 1) {
    if (weights[k] <= 0) continue;
    last = k;
    left -= weights[k];
    if (left < 0) break;
  }
  return last;
}

/** The arrays of a binary message, by name. */
export function arraysOf(head, payload) {
  const found = {};
  let at = 0;
  for (const [name, type, size] of head.arrays) {
    found[name] = type === "f4" ? new Float32Array(payload, at, size) : new Uint32Array(payload, at, size);
    at += 4 * size;
  }
  return found;
}

export class Walk {
  /** `model` has the facts and arrays of the server's message. */
  constructor(model, count, seed) {
    this.seed = seed;
    this.follow(model);
    this.resize(count);
  }

  /** Another policy, or another model; walkers go on from where they are if it has the same states. */
  follow(model) {
    const isSame = this.model?.states === model.states;
    this.model = model;
    this.isDanger = new Set(model.danger);
    this.isEnd = new Set(model.ends);
    this.finished = this.hit = 0;
    // a walk that began by another policy says nothing about this one
    if (isSame) for (const walker of this.walkers) walker.counts = false;
    else if (this.walkers !== undefined) this.walkers = this.walkers.map((_, number) => this.fresh(number, 0));
  }

  resize(count) {
    this.walkers = Array.from({ length: count }, (_, number) => this.walkers?.[number] ?? this.fresh(number, 0));
    this.finished = this.hit = 0;
  }

  fresh(number, round) {
    const { model } = this;
    const state = pick(model.start, 0, model.states, uniform(this.seed, number, round, 0, 2));
    const place = model.place[state];
    const entered = this.isDanger.has(place);
    return { number, round, state, place, time: 0, rest: 0, entered, counts: true, trace: [place], flash: entered };
  }

  step() {
    this.walkers = this.walkers.map((walker) => (this.isOver(walker) ? this.again(walker) : this.moved(walker)));
  }

  isOver({ time, rest }) {
    return rest >= REST || (this.model.longest !== null && time >= this.model.longest);
  }

  again(walker) {
    if (walker.counts) {
      this.finished += 1;
      this.hit += walker.entered ? 1 : 0;
    }
    return this.fresh(walker.number, walker.round + 1);
  }

  moved(walker) {
    const { model, seed } = this;
    const { number, round, time, state } = walker;
    const width = model.actions;
    const row = (Math.min(time, model.steps - 1) * model.states + state) * width;
    const action = pick(model.policy, row, row + width, uniform(seed, number, round, time, 0)) - row;
    const pair = state * width + action;
    const outcome = uniform(seed, number, round, time, 1);
    const to = model.next[pick(model.chance, model.pointer[pair], model.pointer[pair + 1], outcome)];
    const place = model.place[to];
    const isIn = this.isDanger.has(place);
    const flash = isIn && !this.isDanger.has(walker.place);
    const trace = [...walker.trace, place].slice(-TRACE);
    const rest = this.isEnd.has(to) ? walker.rest + 1 : 0;
    const entered = walker.entered || isIn;
    return { ...walker, state: to, place, time: time + 1, rest, entered, trace, flash };
  }

  /** Of the walks that are over, how many entered danger; where walks never end, of those that go on. */
  get shares() {
    if (this.model.longest !== null) return { finished: this.finished, hit: this.hit };
    const counted = this.walkers.filter((walker) => walker.counts);
    return { finished: counted.length, hit: counted.filter((walker) => walker.entered).length };
  }
}
