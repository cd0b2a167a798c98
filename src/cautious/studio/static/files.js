// Files in and out: what the server makes, and grids saved to go on with.

// the server reads no longer ones, and says what is wrong with them from their beginning
const LONGEST_TEXT = 120_000;
const at = (id) => document.getElementById(id);

export class Files {
  /** `openShared(found)` takes what is a shared problem, and says whether it is one. */
  constructor(store, link, say, openShared) {
    Object.assign(this, { store, link, say, openShared });
    for (const button of document.querySelectorAll("[data-export]"))
      button.addEventListener("click", () => this.ask(button.dataset.export));
    at("open").addEventListener("click", () => at("file").click());
    at("file").addEventListener("change", () => this.upload());
    document.addEventListener("click", (event) => {
      if (!at("files").contains(event.target)) at("files").open = false;
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") at("files").open = false;
    });
  }

  ask(what) {
    at("files").open = false;
    const words = what === "report" ? "Writing the report…" : "Writing the file…";
    if (this.link.export(what, this.store.document)) this.say(words);
  }

  receive(head, payload) {
    this.say("");
    download(head.name, new Blob([payload], { type: head.media }));
  }

  async upload() {
    at("files").open = false;
    const [file] = at("file").files;
    at("file").value = "";
    if (file !== undefined) this.read(file);
  }

  async read(file) {
    const [found, most] = [file.size, this.largest].map((size) => size.toLocaleString("en"));
    if (file.size > this.largest) {
      this.say(`${file.name} has ${found} bytes; a saved problem has at most ${most}.`);
      return;
    }
    const text = await file.text();
    if (!this.openShared(text)) this.link.open(text.slice(0, LONGEST_TEXT));
  }

  opened(head) {
    this.say("");
    this.store.set(head.statement);
  }
}

function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
