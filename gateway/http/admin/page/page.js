/*
 * The script of the admin page. It asks `/fleet` every two seconds while the page is seen. Everything is written as text;
 * rows are made once and changed only where a value did, so that a hundred nodes cost a few milliseconds.
 */
import { byId, make } from "./dom.js";
import { showKeys } from "./keys.js";
import { reasonOf, showNodes, stateOf } from "./nodes.js";
import { clockTime, mebibytes, number, paint, percent, put, span, Table, time } from "./table.js";

const POLL_MS = 2_000;
const TIMEOUT_MS = 5_000;
/** The time, in milliseconds, after which the keys are read again: each key is a query to the store. */
const KEYS_MS = 30_000;
/** The most nodes that the verdict names. */
const MOST_NAMED = 3;

const tiles = new Map();

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
  ["+policy", "", (m) => (m.lbPolicy ?? "–").replaceAll("_", " ")],
  ["running", "", (m) => number(m.active)],
  ["+waiting", "for an endpoint", (m) => number(m.queued), (m) => (m.queued ? "warn" : "")],
  ["+requests/s", "", (m) => number(m.requestsPerSecond)],
  ["+errors/s", "", (m) => number(m.errorsPerSecond), (m) => (m.errorsPerSecond ? "bad" : "")],
  ["+tokens/s", "", (m) => number(m.tokensPerSecond)],
  ["+first token p50", "in the last minute", (m) => time(m.p50Ms)],
  ["+p95", "in the last minute", (m) => time(m.p95Ms)],
  ["requests", "so far", (m) => number(m.requests)],
  ["errors", "so far", (m) => number(m.errors), (m) => (m.errors ? "bad" : "")],
]);

/** Why prompts were not in a cache, in words. */
const REASONS = {
  hit: "nothing was lost",
  new: "nothing with this beginning came before",
  client_changed: "the client changed earlier text",
  rewritten: "the client replaced its conversation",
  tools_left_out: "the client left out its tools",
  reasoning_lost: "reasoning of before did not open",
  evicted: "the node needed the memory",
  slot_taken: "another conversation got its slot",
  moved: "the load decided against the node that had it",
  belief_expired: "too long ago to be expected there",
  node_restarted: "the node has lost its cache",
  other_gateway: "another gateway had sent it elsewhere",
  begun_elsewhere: "it began before this gateway",
};

const missTable = new Table(byId("misses").querySelector("table"), [
  ["model", "", (m) => m.model],
  ["reason", "", (m) => m.reason.replaceAll("_", " ")],
  ["+why not more was in the caches of nodes", "", (m) => REASONS[m.reason] ?? ""],
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

const warningTable = new Table(byId("warnings").querySelector("table"), [
  ["time", "", (w) => clockTime(Date.parse(w.time))],
  ["level", "", (w) => (w.level >= 50 ? "error" : "warning"), (w) => (w.level >= 50 ? "bad" : "warn")],
  ["message", "", (w) => w.msg, () => "wrap"],
  ["+facts", "", ({ time: _, level: __, msg: ___, ...facts }) => JSON.stringify(facts).slice(1, -1), () => "wrap"],
]);

/** Shows the last warnings of the log, the newest first. */
function showWarnings(warnings) {
  const rows = warnings.map((warning, at) => [`${warning.time} ${at}`, warning]).reverse();
  byId("warnings").querySelector(".none").hidden = rows.length > 0;
  byId("warnings").querySelector("table").hidden = rows.length === 0;
  warningTable.show(new Map(rows));
}

function showTiles({ total, nodes }) {
  const well = nodes.filter((node) => stateOf(node)[1] === "good").length;
  tile("nodes healthy", `${well} / ${nodes.length}`, well === nodes.length ? "" : well === 0 ? "bad" : "warn");
  tile("answers running", number(total.active));
  const inEngines = nodes.reduce((sum, { waiting = 0 }) => sum + waiting, 0);
  tile("waiting here + in engines", `${number(total.queued)} + ${number(inEngines)}`, total.queued ? "warn" : "");
  tile("tokens/s", number(total.tokensPerSecond));
  tile("requests/s", number(total.requestsPerSecond));
  tile("errors/s", number(total.errorsPerSecond), total.errorsPerSecond ? "bad" : "");
  tile("first token p50, 1 min", time(total.p50Ms));
  tile("first token p95, 1 min", time(total.p95Ms));
  tile("connections", number(total.connections));
  tile("memory", mebibytes(total.rssBytes));
}

/** The effects of overload actions, the most severe first, and the class that colours them. */
const OVERLOAD = [
  ["stopAcceptingRequests", "Overloaded, new requests are refused", "bad"],
  ["releaseKeptAnswers", "Short of memory, answers end with their engines", "warn"],
];
const RESOURCES = { eventLoopDelay: "delay of the event loop", fixedHeap: "heap", processMemory: "memory" };

/** Returns the most severe active overload action with its scarcest resource, as a verdict. */
function overloadOf({ actions, pressures }) {
  const [, does, cls] = OVERLOAD.find(([action]) => actions.includes(action)) ?? [];
  if (!does) return undefined;
  const [resource, share] = Object.entries(pressures).sort(([, one], [, other]) => other - one)[0];
  return [`${does}: ${RESOURCES[resource]} at ${percent(share)}`, cls];
}

/** Returns the most important verdict for an operator, and the class that colours it. */
function verdictOf(fleet) {
  const overloaded = overloadOf(fleet.overload);
  const [verdict, cls] = nodesVerdictOf(fleet);
  if (!overloaded) return [verdict, cls];
  if (cls === "good") return overloaded;
  return [`${overloaded[0]}. ${verdict}`, [overloaded[1], cls].includes("bad") ? "bad" : "warn"];
}

/** Returns the verdict on nodes and requests. */
function nodesVerdictOf({ state, total, models, nodes, nowMs }) {
  const troubled = nodes.filter((node) => stateOf(node)[1] !== "good");
  if (troubled.length > 0) {
    const worst = troubled.some((node) => stateOf(node)[1] === "bad") ? "bad" : "warn";
    const of = troubled.filter((node) => stateOf(node)[1] === worst);
    const named = of.slice(0, MOST_NAMED).map((node) => {
      const since = node.downSinceMs === undefined ? "" : `, since ${clockTime(node.downSinceMs, nowMs)}`;
      return `${node.address}, ${reasonOf(node)}${since}`;
    });
    if (of.length > MOST_NAMED) named.push(`and ${of.length - MOST_NAMED} more`);
    return [
      `${of.length} of ${nodes.length} nodes ${worst === "bad" ? "down" : "draining"}: ${named.join("; ")}`,
      worst,
    ];
  }
  const bare = models.filter(({ healthy }) => healthy === 0).map(({ model }) => model);
  if (bare.length > 0) return [`No node for ${bare.join(", ")}`, "bad"];
  if (state !== "LIVE") return [`This gateway is ${state.toLowerCase().replaceAll("_", " ")}`, "warn"];
  const errors = total.errorsPerSecond ? `, ${number(total.errorsPerSecond)} errors a second` : "";
  const queued = total.queued ? `, ${number(total.queued)} requests wait for a node` : "";
  const all = nodes.length === 1 ? "The node is healthy" : `All ${nodes.length} nodes are healthy`;
  return [`${all}${errors}${queued}`, errors || queued ? "warn" : "good"];
}

/** Shows a reply of `/fleet`. */
function show(fleet) {
  const { host, version, state, uptimeMs, models, nodes, warnings } = fleet;
  document.title = `${host} · svc gateway`;
  put(byId("host"), `${version} on ${host}`);
  put(byId("state"), `${state}, up ${span(uptimeMs)}`);
  paint(byId("state"), `badge ${state === "LIVE" ? "good" : "warn"}`);
  const [verdict, cls] = verdictOf(fleet);
  put(byId("verdict"), verdict);
  paint(byId("verdict"), cls);
  showTiles(fleet);
  showNodes(nodes, models.length);
  modelTable.show(new Map(models.map((model) => [model.model, model])));
  showMisses(models);
  showWarnings(warnings);
}

/** Polls `/fleet` and shows the reply. */
async function ask() {
  try {
    const reply = await fetch("/fleet", { signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (!reply.ok) throw new Error(String(reply.status));
    show(await reply.json());
    byId("lost").hidden = true;
  } catch {
    byId("lost").hidden = false;
  }
}

/** Polls, and schedules the next poll. */
async function poll() {
  if (!document.hidden) await ask();
  setTimeout(poll, POLL_MS);
}

/** Shows the keys, and schedules the next time. */
async function pollKeys() {
  if (!document.hidden) await showKeys();
  setTimeout(pollKeys, KEYS_MS);
}

await Promise.all([poll(), pollKeys()]);
