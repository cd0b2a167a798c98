// The one WebSocket: statements out, answers in; it comes back by itself when it is lost.

const FIRST_WAIT = 300;
const LONGEST_WAIT = 5000;

export class Link {
  /** `on` has hello, solution, frontier, walk, returns, race, model, file, opened, error and state. */
  constructor(on) {
    this.on = on;
    this.number = 0;
    this.wait = FIRST_WAIT;
    this.sent = new Map();
    this.connect();
  }

  connect() {
    const address = `ws://${location.host}${location.pathname}talk`;
    this.socket = globalThis.inNotebook ? new KernelLine() : new WebSocket(address);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = (event) => this.receive(event.data);
    this.socket.onclose = (event) => this.lost(event.reason);
  }

  lost(reason) {
    this.on.state(false, reason);
    setTimeout(() => this.connect(), this.wait);
    this.wait = Math.min(2 * this.wait, LONGEST_WAIT);
  }

  get isOpen() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  /** State the document; what was said while the line is down is said again after the hello. */
  solve(statement) {
    if (this.isOpen) this.say("solve", { statement }, statement);
  }

  /** What walkers of a side need. */
  walk(side, statement) {
    if (this.isOpen) this.say("walk", { statement, side }, statement);
  }

  /** How the returns of a side are distributed. */
  returns(side, statement) {
    if (this.isOpen) this.say("returns", { statement, side }, statement);
  }

  /** Send files, a list of [name, bytes], to be opened with these options; false where nobody listens. */
  upload(files, options) {
    if (!this.isOpen) return false;
    this.number += 1;
    this.sent.set(this.number, { type: "upload", statement: null, at: performance.now() });
    const listed = files.map(([name, bytes]) => [name, bytes.length]);
    const head = new TextEncoder().encode(JSON.stringify({ number: this.number, files: listed, options }));
    const size = new Uint8Array(4);
    new DataView(size.buffer).setUint32(0, head.length, true);
    this.socket.send(new Blob([size, head, ...files.map(([, bytes]) => bytes)]));
    return true;
  }

  /** Open a world by its name; false where nobody listens. */
  world(name) {
    if (this.isOpen) this.say("world", { name }, null);
    return this.isOpen;
  }

  /** Learn a problem with up to so many samples; false where nobody listens. */
  race(statement, samples) {
    if (this.isOpen) this.say("race", { statement, samples }, statement);
    return this.isOpen;
  }

  /** Pause, resume or stop the race. */
  control(what) {
    if (this.isOpen) this.say("control", { what }, null);
  }

  export(what, statement) {
    if (!this.isOpen) return false;
    this.say("export", { statement, what }, statement);
    return true;
  }

  open(text) {
    if (this.isOpen) this.say("open", { text }, null);
  }

  say(type, fields, statement) {
    this.number += 1;
    this.sent.set(this.number, { type, statement, at: performance.now() });
    this.socket.send(JSON.stringify({ type, number: this.number, ...fields }));
  }

  receive(data) {
    if (typeof data === "string") {
      this.hand(JSON.parse(data), null);
      return;
    }
    const size = new DataView(data).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, size)));
    this.hand(head, data.slice(4 + size));
  }

  hand(head, payload) {
    if (head.type === "hello") {
      this.wait = FIRST_WAIT;
      this.sent.clear();
      this.on.state(true, "");
    }
    const question = this.sent.get(head.number) ?? null;
    if (head.type === "solution") {
      // older statements were dropped for this one
      for (const [number, one] of this.sent) if (number < head.number && one.type === "solve") this.sent.delete(number);
    }
    this.on[head.type](head, payload, question);
  }
}

/** What a page in a notebook has in place of a WebSocket: the widget around it hands messages on to the kernel. */
class KernelLine {
  constructor() {
    this.readyState = WebSocket.OPEN;
    addEventListener("message", ({ source, data }) => source === parent && this.onmessage({ data }));
    parent.postMessage(null, "*");
  }

  async send(message) {
    if (typeof message === "string") parent.postMessage(message, "*");
    else {
      const bytes = await message.arrayBuffer();
      parent.postMessage(bytes, "*", [bytes]);
    }
  }
}
