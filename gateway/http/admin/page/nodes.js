/* The table of nodes, with the actions on each. Nodes are identified by address, whatever models they have. */
import { byId, make, press } from "./dom.js";
import { clockTime, number, paint, percent, put, span, Table } from "./table.js";

/** The time, in milliseconds, for which a button waits for a second press. */
const SURE_MS = 10_000;

/** The state of a node in words, and the class that colours it. */
export function stateOf({ flags, ejectedForMs }) {
  if (flags.length === 0) return ["healthy", "good"];
  const names = flags.map((flag) => {
    if (flag === "/failed_outlier_check")
      return `ejected${ejectedForMs === undefined ? "" : `, ${span(ejectedForMs)} left`}`;
    return flag.slice(1).replaceAll("_", " ").replace(/ hc$/, " health check");
  });
  return [names.join(", "), flags.every((flag) => flag === "/draining") ? "warn" : "bad"];
}

/** Why a node gets no requests, in words: its last failure, or else its state. */
export function reasonOf(node) {
  return node.healthFailure ?? stateOf(node)[0];
}

/** Sends an action on a node to all gateways, and shows the result. */
async function order(address, what) {
  try {
    const reply = await fetch(`/endpoint/${encodeURIComponent(address)}/${what}`, {
      method: "POST",
      signal: AbortSignal.timeout(5_000),
    });
    put(byId("said"), `${what} ${address}: ${(await reply.text()).trim()}`);
  } catch {
    put(byId("said"), `${what} ${address}: no answer`);
  }
}

/** Creates the button of an action; one that takes a node out of service asks first. */
function button(cell, name, address, what, asks) {
  let sure = !asks;
  const node = press(cell, name, () => {
    if (sure) {
      void order(address, what);
      put(node, name);
      sure = !asks;
      return;
    }
    sure = true;
    put(node, `${name}: sure?`);
    setTimeout(() => {
      sure = false;
      put(node, name);
    }, SURE_MS);
  });
  node.setAttribute("aria-label", `${name} ${address}`);
}

/** Shows the applicable buttons of a node, and creates them again only if they change. */
function buttons({ address, drained, flags, killable }) {
  const wanted = [drained ? "undrain" : "drain", flags.includes("/failed_outlier_check") ? "uneject" : "eject"];
  if (killable) wanted.push("kill");
  return (cell) => {
    if (cell.dataset.shown === wanted.join()) return;
    cell.dataset.shown = wanted.join();
    cell.replaceChildren();
    for (const what of wanted)
      button(cell, what === "uneject" ? "end ejection" : what, address, what, !what.startsWith("un"));
  };
}

/** Shows how many generations a node runs, as a number and as a bar. */
function load({ running, active, slots }) {
  return (cell) => {
    if (slots === undefined) return put(cell, "–");
    let bar = cell.querySelector("i");
    if (!bar) {
      const box = make("span", cell, undefined, "load");
      make("span", box);
      bar = make("i", make("span", box, undefined, "bar"));
    }
    // A node that reports nothing runs at least what this gateway sent it, up to its slots.
    const now = running || Math.min(active, slots);
    put(cell.querySelector(".load > span"), `${now} / ${slots}`);
    bar.style.width = `${Math.min(100, (100 * now) / slots)}%`;
    paint(bar, now >= slots ? "full" : "");
  };
}

/** Shows the state of a node, its reason and its age. */
function stateText(node) {
  const [state, cls] = stateOf(node);
  if (cls === "good") return state;
  const why = node.healthFailure ? `: ${node.healthFailure}` : "";
  return `${state}${why}${node.downSinceMs === undefined ? "" : `, since ${clockTime(node.downSinceMs)}`}`;
}

/** How many models the gateway has. */
let modelCount = 0;

function modelsText({ models }) {
  if (models.length === modelCount) return models.length === 1 ? models[0] : `all ${modelCount}`;
  return models.join(", ") || "–";
}

/** Shows the engine and device of a node, and its other properties to a pointer over it. */
function engineText({ engine = "" }) {
  return (cell) => {
    put(cell, engine.split(",")[0] || "–");
    if (cell.title !== engine) cell.title = engine;
  };
}

const table = new Table(byId("nodes").querySelector("table"), [
  ["node", "", (n) => n.address],
  ["state", "as Envoy's health flags, with the reason", stateText, (n) => `wrap ${stateOf(n)[1]}`],
  ["load", "generations that run there, by its slots", load],
  ["errors", "calls of this gateway that failed", (n) => number(n.errors), (n) => (n.errors ? "bad" : "")],
  ["+of calls", "of this gateway so far", (n) => number(n.total)],
  ["+waiting", "in the engine's own queue", (n) => number(n.waiting)],
  ["+tokens/s", "of all gateways, as the node reports", (n) => number(n.tokensPerSecond)],
  ["+KV", "share of the KV cache in use", (n) => percent(n.kvUse)],
  ["+prefill", "prompt tokens of this gateway that are yet to be read", (n) => number(n.outstandingPrefillTokens)],
  ["+weight", "", (n) => number(n.weight)],
  ["+engine", "what computes; point at it for the rest", engineText, () => "wrap"],
  ["+models", "", modelsText, () => "wrap"],
  ["orders", "to all gateways", buttons],
]);
let nodes = [];

/** Hides the nodes that the filter leaves out. */
function filter() {
  const words = byId("words").value.toLowerCase();
  const troubled = byId("troubled").checked;
  let shown = 0;
  for (const node of nodes) {
    const [state, cls] = stateOf(node);
    const { tr } = table.rows.get(node.address);
    const text = `${node.address} ${node.models.join(" ")} ${state}`.toLowerCase();
    tr.hidden = !text.includes(words) || (troubled && cls === "good");
    if (!tr.hidden) shown += 1;
  }
  put(byId("none"), nodes.length === 0 ? "no nodes" : shown === 0 ? "none to show" : "");
  byId("none").hidden = shown > 0;
}

/** Shows the nodes of the fleet, of `models` models, those with trouble first. */
export function showNodes(all, models) {
  modelCount = models;
  const rank = (node) => ["bad", "warn", "good"].indexOf(stateOf(node)[1]);
  nodes = all.toSorted((one, other) => rank(one) - rank(other));
  table.show(new Map(nodes.map((node) => [node.address, node])));
  filter();
}

byId("filter").addEventListener("input", filter);
byId("filter").addEventListener("submit", (event) => event.preventDefault());
