// Models from this computer: chosen in a dialog or dropped on the page, kept by the page, read by the server.

const OPTIONS = ["discount", "start", "at_end", "untried"];
const at = (id) => document.getElementById(id);

export class Bring {
  /** `openGrid(file)` takes a grid that was saved. */
  constructor(link, openGrid) {
    Object.assign(this, { link, openGrid, chosen: [], sent: null, kept: null, largest: 0 });
    at("bring-open").addEventListener("click", () => this.show());
    at("bring-choose").addEventListener("click", () => at("bring-files").click());
    at("bring-files").addEventListener("change", () => this.choose([...at("bring-files").files]));
    at("bring-send").addEventListener("click", () => this.send());
    addEventListener("dragover", (event) => this.over(event, true));
    addEventListener("dragleave", (event) => event.relatedTarget === null && this.over(event, false));
    addEventListener("drop", (event) => this.drop(event));
  }

  show() {
    at("files").open = false;
    at("bring-error").textContent = "";
    if (!at("bring").open) at("bring").showModal();
  }

  over(event, isOver) {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    document.body.classList.toggle("dropping", isOver);
  }

  drop(event) {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    document.body.classList.remove("dropping");
    const files = [...event.dataTransfer.files];
    if (files.length === 1 && files[0].name.toLowerCase().endsWith(".json")) this.openGrid(files[0]);
    else if (files.length > 0) this.choose(files).then(() => this.send());
  }

  async choose(files) {
    at("bring-files").value = "";
    this.chosen = await Promise.all(files.map(async (file) => [file.name, new Uint8Array(await file.arrayBuffer())]));
    const sizes = this.chosen.map(([name, bytes]) => `${name} (${bytes.length.toLocaleString("en")} bytes)`);
    at("bring-list").textContent = sizes.join(", ");
    at("bring-send").disabled = this.chosen.length === 0;
    at("bring-error").textContent = "";
  }

  send() {
    const options = {};
    for (const name of OPTIONS) {
      const field = at(`bring-${name}`);
      if (field.value !== "") options[name] = name === "discount" ? field.valueAsNumber : field.value;
    }
    const size = this.chosen.reduce((sum, [, bytes]) => sum + bytes.length, 0);
    const [found, most] = [size, this.largest].map((one) => one.toLocaleString("en"));
    if (size > this.largest) this.refuse(`The files have ${found} bytes; the studio opens at most ${most}.`);
    else this.hand({ files: this.chosen, options });
  }

  /** Send files with their options, or ask for a world by its name; also again, after the server was started anew. */
  hand(brought) {
    this.sent = brought;
    const { world, files, options } = brought;
    const isSent = world === undefined ? this.link.upload(files, options) : this.link.world(world);
    if (!isSent) this.refuse("The studio does not answer.");
  }

  /** The server has read them: these are what the page is about. */
  opened() {
    this.kept = this.sent;
    this.chosen = [];
    at("bring-list").textContent = "";
    at("bring-send").disabled = true;
    // they were about these files, and would be wrong for the next
    for (const name of OPTIONS) at(`bring-${name}`).value = "";
    at("bring").close();
  }

  refuse(text) {
    this.show();
    at("bring-error").textContent = text;
  }
}
