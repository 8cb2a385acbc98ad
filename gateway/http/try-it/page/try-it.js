/*
 * The script of the page to try the API: a conversation, which lives in this page alone, in one of the three formats, and
 * the bytes on the wire for each of its answers. All content of others is written as text.
 */
import { curlOf, FORMATS, readEvents, readReply } from "./formats.js";
import { showMarkdown } from "./markdown.js";
import { showReference } from "./reference.js";

const byId = (id) => document.getElementById(id);

/** The most characters of a reply that the views show. */
const MOST_KEPT = 2 ** 20;

const WEATHER_TOOL = {
  name: "get_weather",
  description: "Returns the weather of a city.",
  parameters: {
    type: "object",
    properties: { city: { type: "string", maxLength: 24 } },
    required: ["city"],
    additionalProperties: false,
  },
};
const CITY_SCHEMA = {
  type: "object",
  properties: { city: { enum: ["Oslo", "Paris", "Rome"] }, days: { type: "integer", minimum: 1, maximum: 7 } },
  required: ["city", "days"],
  additionalProperties: false,
};
/** Messages that the demonstration model can answer, and the box that each one ticks. */
const EXAMPLES = [
  ["Which endpoints does this API offer?"],
  ["Write a function that adds two numbers in Python."],
  ["What is the weather in Oslo?", "with-tools"],
  ["Plan three days in Rome.", "with-schema"],
];

/** Behind the name of the weights, where one set of them has the ids of all models. */
const STANDS_IN = ", stands in for ";

/** The turns so far, as all formats take them. */
let turns = [];
/** Ends the running request; undefined without one. */
let running;
/** The key of the last query for models. */
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
  make("h3", node, who);
  return node;
}

const say = (text, bad = false) => {
  byId("status").textContent = text;
  byId("status").className = bad ? "error" : "";
};

const numberIn = (id) => (byId(id).value === "" ? undefined : Number(byId(id).value));

/** Returns the JSON in a field if its box is ticked. Throws an error that names the field. */
function jsonIn(id) {
  if (!byId(`with-${id}`).checked) return undefined;
  try {
    return JSON.parse(byId(id).value);
  } catch (error) {
    byId(id).focus();
    throw new Error(`${byId(id).labels[0].textContent}: ${error.message}`);
  }
}

/** Returns the request that is sent with `next` as the newest message; throws where a field cannot be read. */
function requestOf(next) {
  const format = byId("format").value;
  const stream = byId("stream").checked;
  const { path, body } = FORMATS[format];
  const tools = jsonIn("tools");
  const facts = {
    model: byId("model").value,
    system: byId("system").value.trim(),
    turns: [...turns, { role: "user", content: next }],
    most: Math.max(1, Math.floor(numberIn("most") ?? 512)),
    temperature: numberIn("temperature"),
    tools: tools && [tools].flat(),
    schema: jsonIn("schema"),
    stream,
  };
  return { format, path, stream, ...facts, text: JSON.stringify(body(facts), undefined, 2) };
}

function setRunning(abort) {
  running = abort;
  byId("send").disabled = Boolean(abort);
  byId("stop").disabled = !abort;
  byId("log").setAttribute("aria-busy", String(Boolean(abort)));
}

/** The views of an answer beside its text, each with its content. */
const VIEWS = {
  Events({ request, ok, chunks, raw }) {
    if (!ok) return raw;
    if (!request.stream) return "This reply is one document, without events: tick Stream.";
    return chunks.map(({ ms, text }) => `+${(ms / 1000).toFixed(3)} s\n${text}`).join("");
  },
  "Raw reply": ({ head, raw }) => `${head}\n\n${raw}`,
  "Request as curl": ({ request }) => curlOf(location.origin, request),
};

/** Builds the element of an answer, with buttons that select the view of its exchange. */
function answerPlace(exchange) {
  const node = turn(exchange.request.model);
  const bar = make("div", node, "", "views row");
  const said = make("div", node, "", "said");
  const wire = make("pre", node, "", "wire");
  const facts = make("p", node, "", "facts dim");
  wire.hidden = true;
  let view = "Text";
  const buttons = ["Text", ...Object.keys(VIEWS)].map((name) => {
    const button = make("button", bar, name);
    button.type = "button";
    button.addEventListener("click", () => {
      show(name);
      node.scrollIntoView({ block: "nearest" });
    });
    return button;
  });
  const copy = make("button", bar, "Copy", "copy");
  copy.type = "button";
  copy.hidden = true;
  copy.addEventListener("click", () => {
    void navigator.clipboard.writeText(wire.textContent).then(
      () => say("copied"),
      () => say("the browser did not let it be copied", true),
    );
  });
  function show(name = view) {
    view = name;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.textContent === name));
    said.hidden = name !== "Text";
    wire.hidden = name === "Text";
    // A page over plain HTTP may not write to the clipboard.
    copy.hidden = wire.hidden || !navigator.clipboard;
    if (!wire.hidden) wire.textContent = VIEWS[name](exchange);
  }
  show();
  return { node, said, facts, show };
}

/** Returns the functions that show an answer as its parts arrive. */
function answerIn({ said, show }, exchange) {
  const shown = { text: "", calls: new Map(), firstMs: undefined, failed: false };
  const places = {};
  const add = (name, more) => {
    shown.firstMs ??= performance.now() - exchange.startedMs;
    places[name] ??= make(name === "text" ? "div" : "p", said, "", name);
    places[name].append(more);
    byId("log").scrollTop = byId("log").scrollHeight;
  };
  return {
    shown,
    note(text) {
      const place = MOST_KEPT - exchange.raw.length;
      if (place <= 0) return;
      const part = text.slice(0, place);
      exchange.raw += part;
      exchange.chunks.push({ ms: performance.now() - exchange.startedMs, text: part });
      show();
    },
    take(part) {
      if (part.reasoning) add("reasoning", part.reasoning);
      if (part.text) {
        add("text", part.text);
        shown.text += part.text;
      }
      for (const { at, name, text } of part.calls ?? []) {
        if (!shown.calls.has(at)) {
          shown.firstMs ??= performance.now() - exchange.startedMs;
          shown.calls.set(at, make("code", make("p", said, "calls ", "call"), `${name} `));
        }
        shown.calls.get(at).append(text ?? "");
      }
      for (const count of ["input", "cached", "output"]) shown[count] = part[count] ?? shown[count];
      if (part.error) {
        shown.failed = true;
        make("p", said, part.error, "error");
        make("pre", said, part.raw);
      }
    },
    end() {
      if (shown.text && !exchange.request.schema) showMarkdown(places.text, shown.text);
      show();
    },
  };
}

/** Shows the times and token counts of an answer. */
function summary({ firstMs, input, cached, output }, { startedMs, requestId }) {
  const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;
  const parts = [`done in ${seconds(performance.now() - startedMs)}`];
  if (firstMs !== undefined) parts.push(`first token after ${seconds(firstMs)}`);
  if (input !== undefined) parts.push(`${input} tokens in${cached ? ` (${cached} from the cache)` : ""}`);
  if (output !== undefined) parts.push(`${output} out`);
  return [...parts, requestId].join(", ");
}

/** Sends the message and shows the answer as it comes. */
async function ask(message) {
  const key = byId("key").value.trim();
  if (key === "") {
    say("Paste the API key first: it is among the lines that npm start prints.", true);
    byId("key").focus();
    return;
  }
  let request;
  try {
    request = requestOf(message);
  } catch (error) {
    say(error.message, true);
    return;
  }
  const abort = new AbortController();
  setRunning(abort);
  byId("examples").hidden = true;
  const asked = turn("You");
  make("p", asked, message);
  const own = turns;
  const exchange = { request, startedMs: performance.now(), raw: "", chunks: [], head: "no reply yet", ok: false };
  const place = answerPlace(exchange);
  const { shown, take, note, end } = answerIn(place, exchange);
  byId("text").value = "";
  say("waiting");
  try {
    const reply = await fetch(request.path, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: request.text,
      signal: abort.signal,
      credentials: "omit",
    });
    exchange.requestId = reply.headers.get("x-request-id");
    exchange.head = [`HTTP ${reply.status}`, ...[...reply.headers].map((field) => field.join(": "))].join("\n");
    exchange.ok = reply.ok;
    if (reply.ok && request.stream) await readEvents(request.format, reply.body, take, note);
    else take(await readReply(request.format, reply, note));
    place.facts.textContent = shown.failed ? exchange.requestId : summary(shown, exchange);
    say(shown.failed ? `failed, status ${reply.status}` : "", shown.failed);
  } catch {
    if (abort.signal.aborted) say("stopped");
    else take({ error: "The connection broke off.", raw: exchange.raw.slice(-500) });
  }
  end();
  if (shown.calls.size > 0)
    make(
      "p",
      place.said,
      "Your program would run it and send its result; the conversation here goes on without.",
      "dim",
    );
  // An answer that was refused or stopped before its first text is not a turn, nor is one of an earlier conversation.
  if (shown.text && own === turns)
    turns.push({ role: "user", content: message }, { role: "assistant", content: shown.text });
  else if (shown.calls.size === 0 && own === turns) {
    asked.firstChild.textContent = "You, without an answer: not part of the conversation";
    byId("text").value ||= message;
  }
  byId("log").scrollTop = byId("log").scrollHeight;
  setRunning(undefined);
}

/** Offers the models that the key may use. */
async function listModels() {
  const key = byId("key").value.trim();
  keep(key);
  if (key === "" || key === listedFor) return;
  listedFor = key;
  const reply = await fetch("/v1/models", { headers: { authorization: `Bearer ${key}` }, credentials: "omit" }).catch(
    () => undefined,
  );
  const { data = [] } = reply?.ok ? await reply.json() : {};
  const chosen = byId("model").value;
  byId("model").replaceChildren();
  for (const { id, display_name } of data) make("option", byId("model"), `${id}: ${display_name}`).value = id;
  if (data.some(({ id }) => id === chosen)) byId("model").value = chosen;
  const [weights, ...others] = new Set(data.map(({ display_name }) => display_name.split(STANDS_IN)[0]));
  const isOne = data.length > 1 && others.length === 0;
  byId("weights").textContent = isOne
    ? `All models here are one: ${weights}. To try another: npm start -- --model FILE`
    : "";
  say(reply?.ok ? `this key may use ${data.length} models` : "this key does not open the service", !reply?.ok);
}

/** Keeps the key for this tab, where the browser allows it. */
function keep(key) {
  try {
    sessionStorage.setItem("key", key);
  } catch {}
}

/** Reads the key from the fragment of the URL, which no server sees, or from the tab's storage. */
function findKey() {
  const given = /^#key=([\x21-\x7e]+)$/.exec(location.hash)?.[1];
  if (given) history.replaceState(null, "", location.pathname);
  try {
    byId("key").value = given ?? sessionStorage.getItem("key") ?? byId("key").value;
  } catch {
    byId("key").value = given ?? byId("key").value;
  }
  void listModels();
  byId(byId("key").value ? "text" : "key").focus();
}

/** Shows the API description below, which needs no key, or hides it. */
async function toggleReference() {
  const place = byId("reference");
  place.hidden = !place.hidden;
  if (place.hidden) return;
  if (place.children.length === 1) {
    const reply = await fetch("/openapi.json").catch(() => undefined);
    if (reply?.ok) showReference(place, await reply.json());
    else make("p", place, "The service did not send its API description.", "error");
  }
  place.scrollIntoView({ behavior: "smooth" });
}

/** Shows the fields of the boxes that are ticked. */
function showFields() {
  for (const id of ["tools", "schema"]) byId(id).parentNode.hidden = !byId(`with-${id}`).checked;
}

byId("tools").value = JSON.stringify([WEATHER_TOOL], undefined, 2);
byId("schema").value = JSON.stringify(CITY_SCHEMA, undefined, 2);
for (const [text, box] of EXAMPLES) {
  const button = make("button", byId("examples"), text);
  button.type = "button";
  button.addEventListener("click", () => {
    for (const id of ["with-tools", "with-schema"]) byId(id).checked = id === box;
    showFields();
    // The demonstration model is at its best there.
    byId("temperature").value = "0";
    byId("text").value = text;
    byId("ask").requestSubmit();
  });
}
byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const message = byId("text").value.trim();
  if (message !== "" && !running) void ask(message);
});
byId("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("ask").requestSubmit();
});
byId("show-reference").addEventListener("click", () => void toggleReference());
byId("stop").addEventListener("click", () => running?.abort());
byId("clear").addEventListener("click", () => {
  running?.abort();
  turns = [];
  byId("log").replaceChildren();
  byId("examples").hidden = false;
  say("");
});
for (const form of ["settings", "access"]) byId(form).addEventListener("submit", (event) => event.preventDefault());
byId("settings").addEventListener("input", showFields);
byId("key").addEventListener("change", () => void listModels());
window.addEventListener("hashchange", findKey);
showFields();
findKey();
