/*
 * The script of the admin page. It asks `/fleet` every two seconds while the page is seen. Everything is written as text;
 * rows are made once and changed only where a value did, so that a hundred nodes cost a few milliseconds.
 */
import { makeCharts } from "./charts.js";
import { byId, make, mebibytes, number, paint, percent, put, span, Table, time } from "./dom.js";
import { sayKeys } from "./keys.js";
import { showNodes, stateOf } from "./nodes.js";

const POLL_MS = 2_000;
const TIMEOUT_MS = 5_000;
/** The points of the charts: an hour. */
const POINTS = 360;

const showCharts = makeCharts(byId("charts"));
const tiles = new Map();
let points = [];
/** The model that the charts show, "" for all. */
let charted = "";

/** Offers the models to choose the charts of, once each. */
function offer(models) {
  const select = byId("charted");
  const known = new Set([...select.options].map(({ value }) => value));
  for (const { model } of models) if (!known.has(model)) make("option", select, model).value = model;
}

/** Shows one of the figures at the top. */
function tile(name, text, cls = "") {
  let dd = tiles.get(name);
  if (!dd) {
    const box = make("div", byId("tiles"));
    make("dt", box, name);
    dd = make("dd", box);
    tiles.set(name, dd);
  }
  put(dd, text);
  paint(dd, cls);
}

const modelTable = new Table(byId("models").querySelector("table"), [
  ["model", "", (m) => m.model],
  ["nodes healthy", "", (m) => `${m.healthy} / ${m.nodes}`, (m) => (m.healthy < m.nodes || !m.nodes ? "warn" : "")],
  ["policy", "", (m) => (m.lbPolicy ?? "–").replaceAll("_", " ")],
  ["running", "", (m) => number(m.active)],
  ["waiting", "for an endpoint", (m) => number(m.queued), (m) => (m.queued ? "warn" : "")],
  ["requests/s", "", (m) => number(m.requestsPerSecond)],
  ["errors/s", "", (m) => number(m.errorsPerSecond), (m) => (m.errorsPerSecond ? "bad" : "")],
  ["tokens/s", "", (m) => number(m.tokensPerSecond)],
  ["first token p50", "in the last minute", (m) => time(m.p50Ms)],
  ["p95", "in the last minute", (m) => time(m.p95Ms)],
  ["requests", "so far", (m) => number(m.requests)],
  ["errors", "so far", (m) => number(m.errors), (m) => (m.errors ? "bad" : "")],
]);

const missTable = new Table(byId("misses").querySelector("table"), [
  ["model", "", (m) => m.model],
  ["reason", "why not more of the prompts was in the caches of nodes", (m) => m.reason.replaceAll("_", " ")],
  ["requests", "so far", (m) => number(m.requests)],
  ["tokens lost", "that might have been cached and were not, so far", (m) => number(m.lostTokens)],
  ["of all prompt tokens", "of the model", (m) => (m.promptTokens ? percent(m.lostTokens / m.promptTokens) : "–")],
]);

/** Shows why prompts were not in caches, a row for each model and reason. */
function showMisses(models) {
  const rows = models.flatMap(({ model, promptTokens, cacheReasons }) =>
    cacheReasons.map((reason) => [`${model} ${reason.reason}`, { model, promptTokens, ...reason }]),
  );
  byId("misses").hidden = rows.length === 0;
  missTable.show(new Map(rows));
}

function showTiles({ total, nodes }) {
  const well = nodes.filter((node) => stateOf(node)[1] === "good").length;
  const ejected = nodes.filter(({ flags }) => flags.includes("/failed_outlier_check")).length;
  tile("requests/s", number(total.requestsPerSecond));
  tile("errors/s", number(total.errorsPerSecond), total.errorsPerSecond ? "bad" : "");
  tile("tokens/s", number(total.tokensPerSecond));
  tile("answers running", number(total.active));
  tile("waiting here", number(total.queued), total.queued ? "warn" : "");
  tile("waiting in engines", number(nodes.reduce((sum, { waiting = 0 }) => sum + waiting, 0)));
  tile("first token p50, 1 min", time(total.p50Ms));
  tile("first token p95, 1 min", time(total.p95Ms));
  tile("nodes healthy", `${well} / ${nodes.length}`, well === nodes.length ? "" : well === 0 ? "bad" : "warn");
  tile("ejected", number(ejected), ejected ? "bad" : "");
  tile("connections", number(total.connections));
  tile("memory", mebibytes(total.rssBytes));
}

/** Shows a reply of `/fleet`. */
function show(fleet) {
  const { host, state, uptimeMs, history, models, nodes } = fleet;
  document.title = `${host} · gateway`;
  put(byId("host"), host);
  put(byId("state"), `${state}, up ${span(uptimeMs)}`);
  paint(byId("state"), `badge ${state === "LIVE" ? "good" : "warn"}`);
  showTiles(fleet);
  modelTable.show(new Map(models.map((model) => [model.model, model])));
  showMisses(models);
  offer(models);
  showNodes(nodes);
  points = [...points, ...history.points].slice(-POINTS);
  showCharts(points, history.pointMs);
}

/** Asks and shows. */
async function ask() {
  const model = charted;
  try {
    const query = new URLSearchParams({ since: points.at(-1)?.atMs ?? 0, model });
    const reply = await fetch(`/fleet?${query}`, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (!reply.ok) throw new Error(String(reply.status));
    const fleet = await reply.json();
    // Another model has been chosen meanwhile: these points are not its.
    if (model === charted) show(fleet);
    byId("lost").hidden = true;
  } catch {
    byId("lost").hidden = false;
  }
}

/** The running question: the next one waits for it, so that no point is shown twice. */
let asking = Promise.resolve();

/** Asks after what is being asked. */
function askNext() {
  asking = asking.then(ask);
  return asking;
}

/** Asks, and comes again. */
async function poll() {
  if (!document.hidden) await askNext();
  setTimeout(poll, POLL_MS);
}

byId("charted").addEventListener("change", (event) => {
  charted = event.target.value;
  points = [];
  void askNext();
});

await Promise.all([poll(), sayKeys()]);
