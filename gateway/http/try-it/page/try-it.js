/*
 * The script of the page to try the API: a conversation, which lives in this page alone, in one of the three formats.
 * Everything that comes from elsewhere is written as text.
 */
import { curlOf, FORMATS, readEvents, readReply } from "./formats.js";

const byId = (id) => document.getElementById(id);

/** The turns so far, as all formats take them. */
let turns = [];
/** Ends the request that runs; undefined while none does. */
let running;
/** The key by which the models were last asked for. */
let listedFor = "";

/** Appends a new element with a text to `parent`. */
function make(name, parent, text, cls) {
  const node = document.createElement(name);
  if (text) node.textContent = text;
  if (cls) node.className = cls;
  parent.append(node);
  return node;
}

/** Shows a turn of the conversation and returns its place. */
function turn(who) {
  const node = make("article", byId("log"));
  make("h4", node, who);
  return node;
}

/** Returns the request that would be sent with `next` as the newest message. */
function requestOf(next) {
  const format = byId("format").value;
  const stream = byId("stream").checked;
  const { path, body } = FORMATS[format];
  const facts = {
    model: byId("model").value.trim(),
    system: byId("system").value.trim(),
    turns: [...turns, { role: "user", content: next }],
    most: Math.max(1, Math.floor(Number(byId("most").value)) || 512),
    stream,
  };
  return { format, path, stream, body: body(facts) };
}

/** Shows the command of the request that Send would send. */
function showCurl() {
  byId("curl").textContent = curlOf(location.origin, requestOf(byId("text").value || "Hello"));
}

const say = (text) => {
  byId("status").textContent = text;
};

function setRunning(abort) {
  running = abort;
  byId("send").disabled = Boolean(abort);
  byId("stop").disabled = !abort;
  byId("log").setAttribute("aria-busy", String(Boolean(abort)));
}

/** Returns what shows an answer as its parts come. */
function answerIn(node, startedMs) {
  const shown = { text: "", firstMs: undefined, input: undefined, output: undefined, failed: false };
  let reasoning;
  let text;
  const add = (place, more) => {
    shown.firstMs ??= performance.now() - startedMs;
    place.append(more);
    const log = byId("log");
    log.scrollTop = log.scrollHeight;
  };
  return {
    shown,
    take(part) {
      if (part.reasoning) {
        reasoning ??= make("p", node, "", "reasoning");
        add(reasoning, part.reasoning);
      }
      if (part.text) {
        text ??= make("p", node);
        add(text, part.text);
        shown.text += part.text;
      }
      shown.input = part.input ?? shown.input;
      shown.output = part.output ?? shown.output;
      if (part.error) {
        shown.failed = true;
        make("p", node, part.error, "error");
      }
    },
  };
}

/** Says what an answer took: times, and tokens as they were counted. */
function summary({ firstMs, input, output }, startedMs) {
  const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;
  const parts = [`done in ${seconds(performance.now() - startedMs)}`];
  if (firstMs !== undefined) parts.push(`first token after ${seconds(firstMs)}`);
  if (input !== undefined) parts.push(`${input} tokens in`);
  if (output !== undefined) parts.push(`${output} out`);
  return parts.join(", ");
}

/** Sends the message and shows the answer as it comes. */
async function ask(message) {
  const { format, path, stream, body } = requestOf(message);
  const abort = new AbortController();
  setRunning(abort);
  make("p", turn("You"), message);
  const own = turns;
  const startedMs = performance.now();
  const { shown, take } = answerIn(turn(body.model), startedMs);
  say("waiting");
  try {
    const reply = await fetch(path, {
      method: "POST",
      headers: { authorization: `Bearer ${byId("key").value.trim()}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: abort.signal,
      credentials: "omit",
    });
    if (reply.ok && stream) await readEvents(format, reply.body, take);
    else take(await readReply(format, reply));
    say(shown.failed ? `failed, status ${reply.status}` : summary(shown, startedMs));
  } catch {
    if (abort.signal.aborted) say("stopped");
    else take({ error: "The connection broke off." });
  }
  // What was refused or stopped before its first word is no turn, nor what belongs to a conversation that is over.
  if (shown.text && own === turns) {
    turns.push({ role: "user", content: message }, { role: "assistant", content: shown.text });
    byId("text").value = "";
  }
  setRunning(undefined);
  showCurl();
}

/** Offers the models that the key may use. */
async function listModels() {
  const key = byId("key").value.trim();
  if (key === "" || key === listedFor) return;
  listedFor = key;
  const reply = await fetch("/v1/models", { headers: { authorization: `Bearer ${key}` }, credentials: "omit" }).catch(
    () => undefined,
  );
  const { data = [] } = reply?.ok ? await reply.json() : {};
  byId("models").replaceChildren();
  for (const { id } of data) make("option", byId("models")).value = id;
  if (data.length > 0 && !data.some(({ id }) => id === byId("model").value)) byId("model").value = data[0].id;
  say(reply?.ok ? `${data.length} models` : "this key does not open the service");
  showCurl();
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const message = byId("text").value.trim();
  if (message !== "" && !running) void ask(message);
});
byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("ask").requestSubmit();
});
byId("stop").addEventListener("click", () => running?.abort());
byId("clear").addEventListener("click", () => {
  running?.abort();
  turns = [];
  byId("log").replaceChildren();
  say("");
  showCurl();
});
byId("settings").addEventListener("submit", (event) => event.preventDefault());
byId("key").addEventListener("change", () => void listModels());
for (const form of ["ask", "settings"]) byId(form).addEventListener("input", showCurl);
// A page of a plain address may not write to the clipboard.
if (navigator.clipboard) {
  byId("copy").hidden = false;
  byId("copy").addEventListener("click", () => {
    void navigator.clipboard.writeText(byId("curl").textContent).then(
      () => say("copied"),
      () => say("the browser did not let it be copied"),
    );
  });
}
showCurl();
