/*
 * The script of the admin page. It asks `/live`, and `/workers` where there are several, each second while the page is seen, and
 * shows differences of totals. Everything is written as text; rows are made once and changed only where a value did, so that a
 * hundred endpoints cost a few milliseconds.
 */

const POLL_MS = 1_000;
const TIMEOUT_MS = 5_000;
/** Points of the curve of a cluster: two minutes. */
const POINTS = 120;
const MIB = 1_048_576;

const byId = (id) => document.getElementById(id);

/** Appends a new element to `parent`. */
function make(name, parent, text, cls) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (cls) node.className = cls;
  parent.append(node);
  return node;
}

/** Sets the text of an element, if it is another one. */
function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets the class of an element, if it is another one. */
function paint(node, cls) {
  if (node.className !== cls) node.className = cls;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const mebibytes = (bytes) => `${whole.format(bytes / MIB)} MiB`;
const sum = (list, of) => list.reduce((total, item) => total + of(item), 0);

/** A number with one decimal place where it is small and has some. */
function number(n) {
  if (n === undefined) return "–";
  return (n % 1 !== 0 && Math.abs(n) < 10 ? tenth : whole).format(n);
}

/** A latency in words. */
function time(ms) {
  if (ms === undefined) return "–";
  if (ms < 10) return `${tenth.format(ms)} ms`;
  return ms < 1_000 ? `${whole.format(ms)} ms` : `${tenth.format(ms / 1_000)} s`;
}

/** A long time in words, in its two largest units. */
function span(ms) {
  const s = Math.floor(ms / 1_000);
  const d = Math.floor(s / 86_400);
  const h = Math.floor(s / 3_600) % 24;
  const m = Math.floor(s / 60) % 60;
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  return m ? `${m} min ${s % 60} s` : `${s} s`;
}

/** The last reply of `/live`. */
let last;
const tiles = new Map();
const sections = new Map();
const workerRows = new Map();

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

/** Columns of an endpoint's row, and what they tell where their names don't. */
const ENDPOINT_COLUMNS = [
  ["endpoint", ""],
  ["state", "as Envoy's health flags"],
  ["zone / priority", ""],
  ["weight", ""],
  ["load", "generations that run there, of all gateways, by its slots"],
  ["waiting", "in the engine's own queue"],
  ["KV", "share of the KV cache in use"],
  ["prefill", "prompt tokens yet to be read"],
  ["calls", "of this gateway, that run now"],
  ["tokens/s", "through this gateway"],
  ["total", "calls so far"],
  ["errors", "calls that failed"],
];

/** The section of a cluster, made when it is first asked for. */
function section(model) {
  let known = sections.get(model);
  if (known) return known;
  const node = make("section", byId("clusters"));
  const head = make("div", node, undefined, "head");
  make("h2", head, model);
  const facts = {};
  for (const name of ["healthy", "running", "req/s", "errors/s", "tokens/s", "first token p50", "p95"]) {
    const fact = make("span", head, undefined, "fact");
    make("span", fact, `${name} `, "dim");
    facts[name] = make("b", fact);
  }
  facts.policy = make("span", head, undefined, "dim");
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${POINTS - 1} 26`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "tokens per second, last two minutes");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  svg.append(line);
  head.append(svg);
  const table = make("table", make("div", node, undefined, "scroll"));
  const row = make("tr", make("thead", table));
  for (const [name, title] of ENDPOINT_COLUMNS) make("th", row, name).title = title;
  known = {
    facts,
    line,
    table,
    body: make("tbody", table),
    empty: make("div", node, "", "none dim"),
    rows: new Map(),
    history: [],
  };
  sections.set(model, known);
  return known;
}

/** The row of an endpoint in the section of its cluster, made when it is first asked for. */
function endpointRow(box, address) {
  let row = box.rows.get(address);
  if (row) return row;
  const tr = make("tr", box.body);
  const cell = () => make("td", tr);
  row = { tr, address: cell(), state: cell(), place: cell(), weight: cell() };
  const load = make("span", cell(), undefined, "load");
  row.loadText = make("span", load);
  row.bar = make("i", make("span", load, undefined, "bar"));
  for (const name of ["waiting", "kv", "prefill", "calls", "tokens", "total", "errors"]) row[name] = cell();
  put(row.address, address);
  box.rows.set(address, row);
  return row;
}

/** The state of an endpoint in words, and the class that colours it. */
function stateOf(endpoint) {
  if (!endpoint.healthFlags.length) return ["healthy", "good"];
  const names = endpoint.healthFlags.map((flag) =>
    flag === "/failed_outlier_check" && endpoint.ejectedForMs !== undefined
      ? `ejected, ${span(endpoint.ejectedForMs)} left`
      : flag.slice(1).replaceAll("_", " ").replace(/ hc$/, " health check"),
  );
  return [names.join(", "), endpoint.healthFlags.every((flag) => flag === "/draining") ? "warn" : "bad"];
}

/** Shows an endpoint; `before` is what it was `seconds` ago, if that is known. */
function showEndpoint(box, endpoint, before, seconds) {
  const row = endpointRow(box, endpoint.address);
  const [state, cls] = stateOf(endpoint);
  put(row.state, state);
  paint(row.state, cls);
  put(row.place, `${endpoint.zone || "–"} / ${endpoint.priority}`);
  put(row.weight, String(endpoint.weight));
  // A node that reports nothing runs at least what this gateway sent it, as far as it has slots.
  const running = endpoint.running || Math.min(endpoint.rqActive, endpoint.slots);
  put(row.loadText, `${running} / ${endpoint.slots}`);
  row.bar.style.width = `${Math.min(100, (100 * running) / endpoint.slots)}%`;
  paint(row.bar, running >= endpoint.slots ? "full" : "");
  put(row.waiting, number(endpoint.waiting));
  put(row.kv, `${whole.format(100 * endpoint.kvUse)} %`);
  put(row.prefill, number(endpoint.outstandingPrefillTokens));
  put(row.calls, number(endpoint.rqActive));
  put(row.tokens, before ? number(Math.max(0, endpoint.deltas - before.deltas) / seconds) : "–");
  put(row.total, number(endpoint.rqTotal));
  put(row.errors, number(endpoint.rqError));
  paint(row.errors, endpoint.rqError ? "bad" : "");
}

/** Hides the endpoints of a cluster that the filter leaves out. */
function filterRows(box, cluster) {
  const words = byId("words").value.toLowerCase();
  const troubled = byId("troubled").checked;
  let shown = 0;
  for (const endpoint of cluster.endpoints) {
    const [state, cls] = stateOf(endpoint);
    const row = box.rows.get(endpoint.address);
    const text = `${endpoint.address} ${endpoint.zone} ${state}`.toLowerCase();
    row.tr.hidden = !text.includes(words) || (troubled && cls === "good");
    if (!row.tr.hidden) shown += 1;
  }
  put(box.empty, cluster.endpoints.length === 0 ? "no endpoints" : shown === 0 ? "none to show" : "");
  box.empty.hidden = shown > 0;
  box.table.hidden = shown === 0;
}

/** Shows a cluster; `before` is what it was `seconds` ago, if that is known. */
function showCluster(cluster, before, seconds) {
  const box = section(cluster.model);
  const healthy = cluster.endpoints.filter((endpoint) => !endpoint.healthFlags.length).length;
  const { facts } = box;
  const rate = (name) => (before ? Math.max(0, cluster[name] - before[name]) / seconds : undefined);
  put(facts.healthy, `${healthy} / ${cluster.endpoints.length}`);
  paint(facts.healthy, healthy === 0 ? "bad" : healthy < cluster.endpoints.length ? "warn" : "");
  put(facts.running, number(cluster.active));
  put(facts["req/s"], number(rate("requests")));
  put(facts["errors/s"], number(rate("errors")));
  paint(facts["errors/s"], rate("errors") ? "bad" : "");
  put(facts["tokens/s"], number(rate("deltas")));
  put(facts["first token p50"], time(cluster.p50));
  put(facts.p95, time(cluster.p95));
  put(facts.policy, cluster.lbPolicy.replaceAll("_", " "));
  if (before) box.history.push(rate("deltas"));
  if (box.history.length > POINTS) box.history.shift();
  const top = Math.max(1, ...box.history);
  const from = POINTS - box.history.length;
  const points = box.history.map((rate, at) => `${from + at},${(25 - (24 * rate) / top).toFixed(1)}`);
  box.line.setAttribute("points", points.join(" "));
  const old = new Map(before ? before.endpoints.map((endpoint) => [endpoint.address, endpoint]) : []);
  for (const endpoint of cluster.endpoints) showEndpoint(box, endpoint, old.get(endpoint.address), seconds);
  const here = new Set(cluster.endpoints.map((endpoint) => endpoint.address));
  for (const [address, row] of box.rows)
    if (!here.has(address)) {
      row.tr.remove();
      box.rows.delete(address);
    }
  filterRows(box, cluster);
}

/** Columns of a worker's row, and how their values are read. */
const WORKER_COLUMNS = [
  ["worker", (w) => w.index],
  ["state", (w) => w.state],
  ["answers running", (w) => w.active],
  ["connections", (w) => w.connections],
  ["requests", (w) => w.requests],
  ["errors", (w) => w.errors],
  ["memory", (w) => (w.rssBytes === undefined ? undefined : mebibytes(w.rssBytes))],
];

/** The cells of a worker, or of the sum of all. */
function workerCells(key) {
  let cells = workerRows.get(key);
  if (cells) return cells;
  const table = byId("workers").querySelector("table");
  if (!workerRows.size) {
    const head = make("tr", make("thead", table));
    for (const [name] of WORKER_COLUMNS) make("th", head, name);
    make("tbody", table);
    byId("workers").hidden = false;
  }
  const row = make("tr", table.querySelector("tbody"));
  cells = WORKER_COLUMNS.map(() => make("td", row));
  workerRows.set(key, cells);
  return cells;
}

/** Shows the reply of `/workers`; `own` is the worker that serves this page. */
function showWorkers({ workers, answered, total }, own, count) {
  const covered = answered === count ? "all" : `${answered} of ${count}`;
  for (const worker of [...workers, { ...total, index: covered, state: "" }]) {
    const cells = workerCells(worker.adminUrl ? worker.index : "total");
    for (const [at, [name, of]] of WORKER_COLUMNS.entries()) {
      const value = of(worker);
      if (name === "worker" && worker.adminUrl && worker.index !== own) linkTo(cells[at], worker);
      else put(cells[at], value === undefined ? "–" : typeof value === "number" ? number(value) : value);
      if (name === "state")
        paint(cells[at], worker.state === "LIVE" ? "good" : worker.state === "no answer" ? "bad" : "warn");
    }
  }
}

/** Links a worker to its own page. One that was opened as localhost goes on as localhost: another name may lead elsewhere. */
function linkTo(cell, { index, adminUrl }) {
  const link = cell.querySelector("a") || make("a", cell, String(index));
  link.href = `${location.protocol}//${location.hostname}:${new URL(adminUrl).port}/`;
}

/** Shows a reply of `/live`. */
function show(now) {
  // A gateway that was started anew counts from zero.
  const before = last && now.uptimeMs > last.uptimeMs ? last : undefined;
  const seconds = before ? (now.atMs - before.atMs) / 1000 : 1;
  const rate = (name) =>
    before
      ? Math.max(0, sum(now.clusters, (c) => c[name]) - sum(before.clusters, (c) => c[name])) / seconds
      : undefined;
  put(byId("state"), now.state);
  paint(byId("state"), `badge ${now.state === "LIVE" ? "good" : "warn"}`);
  put(byId("worker"), now.worker.count > 1 ? `worker ${now.worker.index} of ${now.worker.count}` : "");
  put(byId("uptime"), `up ${span(now.uptimeMs)}`);
  const nodes = new Map(now.clusters.flatMap((c) => c.endpoints.map((e) => [e.address, e])));
  const well = [...nodes.values()].filter((e) => !e.healthFlags.length).length;
  const ejected = [...nodes.values()].filter((e) => e.healthFlags.includes("/failed_outlier_check")).length;
  const loop = before ? now.loop.active - before.loop.active : undefined;
  tile("requests/s", number(rate("requests")));
  tile("errors/s", number(rate("errors")), rate("errors") ? "bad" : "");
  tile("tokens/s", number(rate("deltas")));
  tile("answers running", number(sum(now.clusters, (c) => c.active)));
  tile("first token p50, 1 min", time(now.p50));
  tile("first token p95, 1 min", time(now.p95));
  tile("endpoints healthy", `${well} / ${nodes.size}`, well === nodes.size ? "" : well === 0 ? "bad" : "warn");
  tile("ejected", number(ejected), ejected ? "bad" : "");
  tile("waiting in engines", number(sum([...nodes.values()], (e) => e.waiting)));
  tile("connections", number(now.connections));
  tile(
    "event loop busy",
    loop === undefined ? "–" : `${whole.format((100 * loop) / Math.max(1, loop + now.loop.idle - before.loop.idle))} %`,
  );
  tile("memory", mebibytes(now.rssBytes));
  const old = new Map(before ? before.clusters.map((cluster) => [cluster.model, cluster]) : []);
  for (const cluster of now.clusters) showCluster(cluster, old.get(cluster.model), seconds);
  last = now;
}

/** Asks, shows, and comes again. */
async function poll() {
  if (!document.hidden) {
    try {
      const reply = await fetch("/live", { signal: AbortSignal.timeout(TIMEOUT_MS) });
      if (!reply.ok) throw new Error(String(reply.status));
      const now = await reply.json();
      show(now);
      if (now.worker.count > 1) {
        const all = await fetch("/workers?format=json", { signal: AbortSignal.timeout(TIMEOUT_MS) });
        showWorkers(await all.json(), now.worker.index, now.worker.count);
      }
      byId("lost").hidden = true;
    } catch {
      byId("lost").hidden = false;
    }
  }
  setTimeout(poll, POLL_MS);
}

byId("filter").addEventListener("input", () => {
  if (last) for (const cluster of last.clusters) filterRows(section(cluster.model), cluster);
});
byId("filter").addEventListener("submit", (event) => event.preventDefault());
await poll();
