// Files in and out: what the server makes, and grids saved to go on with.

const at = (id) => document.getElementById(id);

export class Files {
  constructor(store, link, say) {
    Object.assign(this, { store, link, say });
    for (const button of document.querySelectorAll("[data-export]"))
      button.addEventListener("click", () => this.ask(button.dataset.export));
    at("save").addEventListener("click", () => this.save());
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

  save() {
    at("files").open = false;
    download("grid.json", new Blob([JSON.stringify(this.store.document, null, 1)], { type: "application/json" }));
  }

  async upload() {
    at("files").open = false;
    const [file] = at("file").files;
    at("file").value = "";
    if (file !== undefined) this.read(file);
  }

  async read(file) {
    const [found, most] = [file.size, this.largest].map((size) => size.toLocaleString("en"));
    if (file.size > this.largest) this.say(`${file.name} has ${found} bytes; a saved grid has at most ${most}.`);
    else this.link.open(await file.text());
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
