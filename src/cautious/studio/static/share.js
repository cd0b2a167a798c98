// A whole problem in the part of an address after the #, which no browser sends anywhere, or in a file.

import { packed, toText, unpacked } from "./draft.js";

// longer addresses are cut off by mail programs and chats
const LONGEST_LINK = 8000;
// of a link that somebody sends: it must not unpack to something huge
const LARGEST_PROBLEM = 24_000_000;
const KEY = "problem=";
const at = (id) => document.getElementById(id);

export class Share {
  /** `current` gives what to share, { name, document, brought }; `open` takes it; `say` shows a sentence. */
  constructor(current, open, say) {
    Object.assign(this, { current, open, say });
    at("share-link").addEventListener("click", () => this.copy());
    at("share-file").addEventListener("click", () => this.save());
    addEventListener("hashchange", () => this.take());
    document.addEventListener("paste", (event) => {
      const text = event.clipboardData?.getData("text") ?? "";
      if (!event.target.matches?.("input") && text.includes(`#${KEY}`)) this.read(text);
    });
  }

  /** Whether the address of the page has a problem in it; it is opened, and the address is plain again. */
  take() {
    const { hash } = location;
    if (!hash.startsWith(`#${KEY}`)) return false;
    history.replaceState(null, "", location.pathname);
    this.read(hash);
    return true;
  }

  async copy() {
    at("files").open = false;
    if (this.isElsewhere()) return;
    const text = await squeezed(JSON.stringify(this.plain()));
    const link = `${location.origin}${location.pathname}#${KEY}${text}`;
    if (link.length > LONGEST_LINK) {
      const most = LONGEST_LINK.toLocaleString("en");
      this.say(`This problem needs a link of ${link.length.toLocaleString("en")} characters, and many programs cut off \
what is longer than ${most}. Files, "Save the problem" makes a file instead.`);
      return;
    }
    this.link = link;
    try {
      await navigator.clipboard.writeText(link);
      this.say(`The link is copied (${link.length.toLocaleString("en")} characters). It opens in any studio: paste it \
there, or: cautious studio LINK`);
    } catch {
      // without leave to write to the clipboard: the address itself can be copied
      history.replaceState(null, "", `#${KEY}${text}`);
      this.say("The address of this page now holds the problem; copy it from there.");
    }
  }

  save() {
    at("files").open = false;
    if (this.isElsewhere()) return;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(this.plain())], { type: "application/json" }));
    link.download = "problem.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  /** Whether the page does not have the problem's files, because the studio was started with them. */
  isElsewhere() {
    const { name, brought } = this.current();
    const isElsewhere = name === "" && brought === null;
    if (isElsewhere) this.say("This problem was opened when the studio was started, so share its file itself.");
    return isElsewhere;
  }

  plain() {
    const { name, document: document_, brought } = this.current();
    return { cautious: 1, name, document: document_, brought: name === "" ? packed(brought) : null };
  }

  /** Open what a link or the text after its # holds. */
  async read(text) {
    try {
      this.openPlain(JSON.parse(await unsqueezed(text.slice(text.indexOf(KEY) + KEY.length).trim())));
    } catch {
      this.say("The link is damaged, or it holds no problem; ask for it again, or for a file.");
    }
  }

  /** Whether the text of a file is a shared problem; it is opened. */
  openText(text) {
    try {
      this.openPlain(JSON.parse(text));
      return true;
    } catch {
      return false;
    }
  }

  openPlain({ cautious, name, document: document_, brought }) {
    if (cautious !== 1 || document_ === null || typeof document_ !== "object") throw new TypeError("not a problem");
    this.open({ name: String(name), document: document_, brought: unpacked(brought ?? null) });
  }
}

async function through(bytes, stream, most = Infinity) {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader();
  const parts = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(parts).arrayBuffer());
    size += value.length;
    if (size > most) throw new RangeError("too large");
    parts.push(value);
  }
}

async function squeezed(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  return toText(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

async function unsqueezed(text) {
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(plain, (one) => one.charCodeAt(0));
  return new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw"), LARGEST_PROBLEM));
}
