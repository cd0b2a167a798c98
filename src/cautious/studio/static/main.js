// Puts the parts together: the document goes out, answers come in, everything shows them.

import { Bring } from "./bring.js";
import { Controls } from "./controls.js";
import { Curve } from "./curve.js";
import { offerExamples, worldOf } from "./examples.js";
import { Files } from "./files.js";
import { Graph } from "./graph.js";
import { boundOf } from "./limits.js";
import { Link } from "./link.js";
import { WorldMap } from "./map.js";
import { Painter } from "./paint.js";
import { answerOf, boardOf } from "./answer.js";
import { banner, readNothing, readOut, readTime, readWaiting, sentence, sizes } from "./readout.js";
import { keepDraft, restoreDraft as restore } from "./draft.js";
import { Share } from "./share.js";
import { Store } from "./store.js";
import { StateTable } from "./table.js";
import { Tour } from "./tour.js";
import { Views } from "./views.js";
import { explainWords } from "./words.js";

const PAUSE_MILLISECONDS = 1500;
const NO_CURVE = "Choose a risk, or set one limit, to see what it costs.";
const NO_POINTS = "No policy meets the limit, so there is nothing to trade.";
const GONE = "The studio does not answer; trying again. If it was closed, start it anew: cautious studio";
const at = (id) => document.getElementById(id);

const store = new Store();
const map = new WorldMap(at("map"));
const painter = new Painter(map, store, at("tools"), at("here"));
const controls = new Controls(store);
const curve = new Curve(at("curve"), ({ x, caution }, limit) => {
  if (limit === null) store.change({ caution });
  else store.changeLimit(limit, x);
});
const table = new StateTable(at("table"), mark);
const graph = new Graph(at("graph"), mark);
const link = new Link({
  hello,
  solution,
  frontier,
  walk: (head, payload, question) => views.walk(head, payload, question),
  returns: (head, payload) => views.returns(head, payload),
  race: (head, payload, question) => views.raced(head, payload, question),
  model,
  state,
  error,
  file: (head, payload) => files.receive(head, payload),
  opened: (head) => files.opened(head),
});
const share = new Share(current, openShared, banner);
const files = new Files(store, link, banner, (text) => share.openText(text));
const bring = new Bring(link, (file) => files.read(file));
const views = new Views(link, map, graph, rowsOf, (...all) => answerOf(opened, ...all));
let greeting = null;
let opened = null;
let shown = null;
let drawn = "";
let waiting = null;
let saving = null;
// what to go on with when a model that was brought has been read again
let draft = null;

addEventListener("pagehide", () => saving !== null && keep());
document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.target.matches("input[type=number]")) return;
  const key = event.key.toLowerCase();
  if (key === "z" && !event.shiftKey) store.undo();
  else if (key === "y" || key === "z") store.redo();
  else return;
  event.preventDefault();
});
at("undo").addEventListener("click", () => store.undo());
at("redo").addEventListener("click", () => store.redo());
at("example").addEventListener("change", ({ target: { value } }) => {
  const world = worldOf(value);
  if (world === null) begin(value);
  else bring.hand({ world });
});

function hello(head) {
  const isFirst = greeting === null;
  greeting = head;
  files.largest = 1.4 * head.largest_upload;
  bring.largest = head.largest_upload;
  drawn = "";
  if (!isFirst) {
    // the server knows nothing of this page any more, and the page has everything
    draft = { name: at("example").value, document: store.document };
    if (bring.kept === null) ask(store.document);
    else bring.hand(bring.kept);
    return;
  }
  opened = head.opened;
  offerExamples(at("example"), greeting, opened, bring.kept);
  store.listen(changed);
  draft = restore(head.first ?? opened.name);
  if (draft !== null && draft.brought !== null) bring.hand(draft.brought);
  else if (draft !== null) begin(draft.name, draft.document);
  else begin(head.first ?? "");
  explainWords();
  const tour = new Tour((view) => views.choose(view));
  if (opened === null) tour.offer();
  if (!share.take() && head.shared !== "") share.read(head.shared);
}

/** What the page is about. */
function current() {
  return { name: at("example").value, document: store.document, brought: bring.kept };
}

/** A problem from a link or a file; the server checks it before anything is shown. */
function openShared({ name, document: document_, brought }) {
  if (brought !== null) {
    draft = { name: "", document: document_ };
    bring.hand(brought);
    return;
  }
  begin(name in greeting.examples ? name : "blank");
  link.open(JSON.stringify(document_));
}

/** A model that was brought has been read, perhaps again. */
function model(head) {
  bring.opened();
  banner("");
  opened = head.opened;
  offerExamples(at("example"), greeting, opened, bring.kept);
  const { name, document: document_ } = draft ?? { name: "", document: null };
  draft = null;
  try {
    begin(name, document_);
  } catch {
    // files that fit, with a question that does not
    begin("");
  }
}

/** Start from an example, or from the problem that was opened (""). */
function begin(name, document_ = null) {
  const isGrid = name !== "";
  const own = isGrid ? null : opened;
  at("example").value = name;
  at("title").textContent = own === null ? "" : sizes(own);
  at("story").textContent = own === null ? "" : own.story;
  for (const part of document.querySelectorAll(".for-grid")) part.hidden = !isGrid;
  const hasMap = isGrid || own.rows !== null;
  for (const part of ["map-frame", "here", "legend", "tools"]) at(part).hidden = !hasMap;
  at("table-frame").hidden = at("graph-frame").hidden = hasMap;
  const board = isGrid ? null : boardOf(own, null);
  at("legend-board").replaceChildren(...(board?.legend() ?? []));
  at("legend-board").hidden = board === null;
  at("legend-arrows").hidden = board !== null;
  painter.offer(isGrid ? ["#", "D", "G", "R", "S", "."] : ["D", "."]);
  controls.offer(own, greeting);
  map.show(null);
  views.clear();
  shown = null;
  store.start(document_ ?? (isGrid ? greeting.examples[name] : own.statement));
}

function changed(document_) {
  at("undo").disabled = store.past.length === 0 && store.document === store.base;
  at("redo").disabled = store.future.length === 0;
  const last = shown;
  if (document_ === last) return;
  shown = document_;
  if (last !== null && !document.body.classList.contains("stale")) banner("");
  // first of all the question: the rest happens while it is answered
  ask(document_);
  controls.show(document_);
  if (document_.grid === null) {
    if (opened.rows !== null) map.paint(opened.rows, document_.danger);
  } else if (document_.grid !== last?.grid) map.paint(document_.grid.rows);
  if (document_.risk.kind === "none" && onlyLimit(document_) === null) curve.show(null, NO_CURVE);
  at("trade-name").textContent = document_.risk.kind === "none" ? "What the limit costs" : "What caution buys";
  saving ??= setTimeout(keep, PAUSE_MILLISECONDS);
}

/** State the document; when the answer is long in coming, say so. */
function ask(document_) {
  link.solve(document_);
  waiting ??= setTimeout(readWaiting, PAUSE_MILLISECONDS);
}

function answered() {
  clearTimeout(waiting);
  waiting = null;
}

function solution(head, payload, { statement, at: asked }) {
  answered();
  const rows = rowsOf(statement);
  if (rows === null) {
    table.show(head.table, head.visits);
    graph.show(head.graph, head.visits);
  } else showOnMap(head, payload, rows, statement);
  const hasRisk = statement.risk.kind !== "none";
  const limit = onlyLimit(statement);
  readOut(head, hasRisk, statement.step ?? 0);
  controls.limits.tell(head.limits);
  controls.count(statement.horizon === null ? "" : head.counted);
  if (hasRisk && head.risk_name !== "") at("risk-name").textContent = at("risk-name").title = head.risk_name;
  if ((hasRisk || limit !== null) && keyOf(statement) !== drawn) {
    curve.show(null, head.status === "INFEASIBLE" && limit === null ? NO_POINTS : "Drawing the curve…");
  }
  const isPolicy = head.status !== "INFEASIBLE";
  const x = limit === null ? head.risk : boundOf(statement.limits, limit);
  curve.at(isPolicy && (hasRisk || limit !== null) ? x : null, head.expected_return);
  // what was wrong with the question before; other news stays
  if (document.body.classList.contains("stale")) banner("");
  document.body.classList.remove("stale");
  readTime(head, asked);
  views.solved(statement);
}

/** The map that a statement is about; null where there is none. */
function rowsOf({ grid }) {
  return grid === null ? opened.rows : grid.rows;
}

function showOnMap(head, payload, rows, statement) {
  const size = head.shape[0] * head.shape[1];
  const tables = [new Float32Array(payload, 0, size), new Float32Array(payload, 4 * size, size)];
  map.show(answerOf(opened, statement, rows, ...tables, head));
  at("legend-scale").textContent = map.scaleWords;
  if (map.cursor !== null) at("here").textContent = map.describe(...map.cursor);
}

function frontier(head, _, { statement }) {
  drawn = keyOf(statement);
  const risk = head.risk === "" ? controls.figure(statement.risk.kind) : head.risk;
  curve.show(head.points, NO_POINTS, { risk, share: head.share, limit: head.limit });
}

/** The limit that the curve is along: the only one, where no risk is chosen. */
function onlyLimit({ risk, limits }) {
  return risk.kind === "none" ? controls.limits.only(limits) : null;
}

/** What a curve belongs to. */
function keyOf(statement) {
  const { limits } = statement;
  const isAlong = onlyLimit(statement) !== null;
  const own = limits.own.map((one) => (one === null || !isAlong ? one : 0));
  const danger = ["time", "ever"].map((name) => (limits[name] === null || !isAlong ? limits[name] : 0));
  return JSON.stringify({ ...statement, caution: 0, step: 0, limits: [danger, own] });
}

function mark(number, isDanger) {
  const others = store.document.danger.filter((one) => one !== number);
  store.change({ danger: isDanger ? [...others, number].sort((a, b) => a - b) : others });
}

function error(head, _, question) {
  answered();
  banner(sentence(head.message));
  // figures of another question must not pass for the answer to this one
  if (question?.type === "upload") return refuse(head.message);
  if (question?.type === "race" || question?.type === "returns") {
    banner("");
    views.refused(question.type, sentence(head.message));
  }
  if (question !== null && question.type !== "solve") return;
  document.body.classList.add("stale");
  readNothing();
  controls.limits.tell(null);
}

function state(isOpen, reason) {
  answered();
  if (!isOpen) views?.race.lost();
  document.body.classList.toggle("stale", !isOpen);
  banner(isOpen ? "" : reason || GONE);
}

/** Files that cannot be opened; what the page had before goes on. */
function refuse(message) {
  const isAgain = draft !== null;
  draft = null;
  banner(isAgain ? message : "");
  // a sentence may begin with the name of a file, which stays as it is
  if (!isAgain) bring.refuse(message);
  else if (store.document === null) begin(greeting.first ?? "");
}

/** Remember the page for when it is loaded again. */
function keep() {
  saving = null;
  keepDraft({ of: greeting.first ?? greeting.opened.name, ...current() });
}
