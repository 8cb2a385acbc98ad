/* The usage of keys, and the remaining limits of one, by the id of its record: never the key itself. */
import { byId, press } from "./dom.js";
import { number, put, span, Table } from "./table.js";

const limits = new Table(byId("limits").querySelector("table"), [
  ["limit", "", (l) => l.limit ?? l.of],
  ["model", "", (l) => l.model ?? "all"],
  ["value", "", (l) => `${number(l.value)}${l.per ? ` / ${l.per}` : " at once"}`],
  ["left", "of what may be used at once, or today; of places, at this gateway", (l) => number(l.left)],
  ["full again in", "", (l) => (l.full_in_ms === undefined ? "–" : span(l.full_in_ms))],
]);
const usage = new Table(byId("usage").querySelector("table"), [
  ["day", "in UTC", (d) => d.day],
  ["model", "", (d) => d.model],
  ["requests", "that counted", (d) => number(d.requests)],
  ["refused", "by limits of the key", (d) => number(d.refused), (d) => (d.refused ? "warn" : "")],
  ["input tokens", "", (d) => number(d.input_tokens)],
  ["cached", "a part of the input", (d) => number(d.cached_input_tokens)],
  ["output tokens", "", (d) => number(d.output_tokens)],
]);

const today = new Table(byId("today").querySelector("table"), [
  ["key", "of the 50 that were used last at this gateway", (k) => k.name],
  ["id", "", idButton],
  ["+owner", "", (k) => k.owner ?? "–"],
  ["requests today", "in UTC, at all gateways that count together", (k) => number(k.requests)],
  ["+refused", "by limits of the key", (k) => number(k.refused), (k) => (k.refused ? "warn" : "")],
  ["input tokens", "", (k) => number(k.input_tokens)],
  ["+cached", "a part of the input", (k) => number(k.cached_input_tokens)],
  ["output tokens", "", (k) => number(k.output_tokens)],
]);

/** Shows the id of a key as a button that shows its limits and days. */
function idButton({ key_id: id }) {
  return (cell) => {
    if (cell.firstChild) return;
    press(cell, id, () => {
      byId("key-id").value = id;
      byId("key-form").requestSubmit();
    });
  };
}

const say = (text) => put(byId("key-said"), text);

async function ask(path) {
  const reply = await fetch(path, { signal: AbortSignal.timeout(5_000) });
  if (!reply.ok) throw new Error((await reply.text()).trim());
  return await reply.json();
}

/** Shows the keys that were used last, by their tokens of today, and how many are in force. */
export async function showKeys() {
  try {
    const [{ keys, active, stale }, used] = await Promise.all([ask("/keys/status"), ask("/keys/today")]);
    if (byId("usage").hidden)
      say(`${number(active)} of ${number(keys)} keys are active${stale ? "; the newest change cannot be used" : ""}`);
    const tokens = (key) => key.input_tokens + key.output_tokens;
    const rows = used.keys.toSorted((one, other) => tokens(other) - tokens(one));
    byId("today").hidden = rows.length === 0;
    today.show(new Map(rows.map((key) => [key.key_id, key])));
  } catch {
    say("the use of keys is unknown now");
  }
}

async function show(id) {
  const [used, may] = await Promise.all([
    ask(`/keys/${encodeURIComponent(id)}/usage`),
    ask(`/limits/${encodeURIComponent(id)}`),
  ]);
  const rows = [
    ...may.limits.map((limit) => ({ ...limit, left: limit.remaining })),
    ...may.places.map((place) => ({ ...place, value: place.limit, limit: undefined, left: place.limit - place.taken })),
  ];
  limits.show(new Map(rows.map((row, at) => [at, row])));
  const days = used.days.flatMap((day) => [
    { ...day, model: "all" },
    ...day.models.map((model) => ({ ...model, day: "" })),
  ]);
  usage.show(new Map([{ ...used.total, day: "31 days", model: "all" }, ...days].map((row, at) => [at, row])));
  byId("limits").hidden = rows.length === 0;
  byId("usage").hidden = false;
  say(`counted since ${new Date(used.since).toLocaleString()}`);
}

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const id = byId("key-id").value.trim();
  if (id === "") return;
  for (const part of ["limits", "usage"]) byId(part).hidden = true;
  show(id).catch((error) => say(error.message || "no answer"));
});

/** Shows the command that makes a key with the limits in the form. */
function showCommand() {
  const fields = [...byId("new-key").querySelectorAll("input")].filter(({ value }) => value.trim() !== "");
  const options = fields.map(({ name, value }) => ` --${name} '${value.trim().replaceAll("'", "'\\''")}'`);
  put(byId("command"), `npm run --silent keys -- create${options.join("")}`);
}

byId("new-key").addEventListener("input", showCommand);
byId("new-key").addEventListener("submit", (event) => {
  event.preventDefault();
  navigator.clipboard?.writeText(byId("command").textContent).then(
    () => say("copied"),
    () => say("the browser did not let it be copied"),
  );
});
byId("copy").hidden = !navigator.clipboard;
ask("/config_dump")
  .then(({ bootstrap }) => {
    byId("new-key").elements.file.value = bootstrap.keys.file ?? "";
  })
  .catch(() => {})
  .finally(showCommand);
