/*
 * The script of the page to try the API: conversations, which this tab alone keeps, in any of the three formats, and the
 * bytes on the wire for each of their answers. All content of others is written as text.
 */
import { answerIn, atEnd, showCall } from "./answer.js";
import { byId, make, press } from "./dom.js";
import { FORMATS, parsed, readEvents, readReply } from "./formats.js";
import { showMarkdown } from "./markdown.js";
import { showReference } from "./reference.js";
import { download, keep, keeps, kept, keptTalks, setKeeping } from "./talks.js";

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

const log = byId("log");
/** The conversations, `{ turns }` each, the newest last. */
const talks = keptTalks();
let talk = talks.at(-1) ?? { turns: [] };
/** The elements of turns, which hold what went over the wire. */
const nodes = new WeakMap();
/** The turn that the next message replaces, with all behind it; undefined for none. */
let edited;
/** Ends the running requests; undefined without any. */
let running;
/** The key of the last query for models. */
let listedFor = "";

const say = (text, bad = false) => {
  byId("status").textContent = text;
  byId("status").className = bad ? "error" : "";
};

const textIn = (id) => byId(id).value.trim() || undefined;
const numberIn = (id) => (textIn(id) === undefined ? undefined : Number(textIn(id)));

/** Returns the JSON in a field if its box is ticked. Throws an error that names the field. */
function jsonIn(id) {
  if (!byId(`with-${id}`).checked) return undefined;
  try {
    return JSON.parse(byId(id).value);
  } catch (error) {
    byId(id).focus();
    throw new Error(`${byId(id).labels[0].firstChild.textContent.trim()}: ${error.message}`);
  }
}

/** Returns the ends of the ids of format and model: of one request, or of two side by side. */
const sides = () => (byId("with-compare").checked ? ["", "-2"] : [""]);

/** Returns the request for the answer to `turns`. Throws where a field cannot be read. */
function requestOf(turns, side) {
  const format = byId(`format${side}`).value;
  const tools = jsonIn("tools");
  const facts = {
    model: byId(`model${side}`).value,
    system: textIn("system"),
    turns,
    most: Math.max(1, Math.floor(numberIn("most") ?? 512)),
    temperature: numberIn("temperature"),
    topP: numberIn("top-p"),
    stop: textIn("stop-texts")?.split("\n"),
    seed: numberIn("seed"),
    effort: textIn("effort"),
    cacheKey: textIn("cache-key"),
    parallel: byId("parallel").checked,
    tools: tools && [tools].flat(),
    schema: jsonIn("schema"),
    stream: byId("stream").checked,
  };
  const { path, body } = FORMATS[format];
  return { format, path, ...facts, text: JSON.stringify(body(facts), undefined, 2) };
}

/** Returns the calls without results at the end of the conversation. */
const openCalls = () => talk.turns.at(-1)?.calls ?? [];

/** Returns a new element of the conversation with its heading. */
function article(who) {
  const node = document.createElement("article");
  make("h3", node, who);
  return node;
}

/** Creates the element of a turn, without what went over the wire. */
function elementOf(turn) {
  const { role, text, images = [], results, calls = [], facts } = turn;
  const node = article(role === "user" ? "You" : results ? "Results of tools" : turn.model);
  for (const result of results ?? []) make("p", node, `${result.name}: ${result.text}`);
  for (const url of images) Object.assign(make("img", node), { src: url, alt: "image of this message" });
  if (role === "user") {
    make("p", node, text);
    press(make("div", node, "", "views row"), "Edit", () => edit(turn));
  }
  if (role !== "assistant") return node;
  showMarkdown(make("div", node, "", "text"), text);
  for (const call of calls) showCall(node, call);
  make("p", node, facts, "facts dim");
  finish(turn, node, make("div", node, "", "views row"), node);
  return node;
}

/** Adds to an answer what can be done next: another answer in its place, and the results of its calls. */
function finish(turn, node, bar, said) {
  press(bar, "Regenerate", () => {
    const at = talk.turns.indexOf(turn);
    if (at > 0 && !running) void answer(talk.turns.slice(0, at));
  });
  if (turn.calls.length > 0) resultForm(turn, said);
  nodes.set(turn, node);
}

/** Adds the form for the results of an answer's calls, which the next request sends. */
function resultForm({ calls }, parent) {
  const form = make("form", parent, "", "results");
  const fields = calls.map(({ name }, at) => {
    const label = make("label", form, `Result of ${name}${calls.length > 1 ? `, call ${at + 1}` : ""}`);
    const field = make("textarea", label);
    return Object.assign(field, { rows: 2, required: true, spellcheck: false });
  });
  const bar = make("div", form, "", "row");
  const send = make("button", bar, calls.length > 1 ? "Send results" : "Send result", "main");
  send.type = "submit";
  press(bar, "Fill in an example", () => {
    for (const [at, { name, text }] of calls.entries()) {
      const example =
        name === WEATHER_TOOL.name ? { ...parsed(text), temperature: 21, condition: "rainy" } : { ok: true };
      fields[at].value = JSON.stringify(example);
    }
    send.focus();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const results = calls.map(({ id, name }, at) => ({ id, name, text: fields[at].value }));
    if (!running) void answer([...talk.turns, { role: "tool", results }]);
  });
}

/** Shows the conversation and the list of all. */
function render() {
  const { turns } = talk;
  for (const turn of turns) if (!nodes.has(turn)) nodes.set(turn, elementOf(turn));
  log.replaceChildren(...turns.map((turn) => nodes.get(turn)));
  byId("examples").hidden = turns.length > 0;
  edit();
  showForms();
  const list = byId("talks");
  list.replaceChildren();
  for (const one of talks.includes(talk) ? talks : [...talks, talk]) {
    const title = one.turns[0]?.text.slice(0, 60) || "New conversation";
    list.add(new Option(title, "", false, one === talk));
  }
  scrollTo(0, document.documentElement.scrollHeight);
}

/** Shows the forms for results at the end of the conversation alone. */
function showForms() {
  for (const form of log.querySelectorAll("form"))
    form.hidden = Boolean(running) || !nodes.get(talk.turns.at(-1))?.contains(form);
}

/** Begins the edit of a message, or ends it without one. */
function edit(turn) {
  if (running) return;
  edited = turn;
  byId("cancel").hidden = !turn;
  const at = turn ? talk.turns.indexOf(turn) : talk.turns.length;
  for (const [index, one] of talk.turns.entries()) nodes.get(one).classList.toggle("old", index >= at);
  if (!turn) return;
  byId("text").value = turn.text;
  byId("text").focus();
  say("Send replaces this message and all behind it");
}

/** Keeps the conversations for the tab. */
function save() {
  if (talk.turns.length > 0 && !talks.includes(talk)) talks.push(talk);
  if (!keep("talks", JSON.stringify(talks))) say("too long for this tab to keep; export it", true);
}

function setRunning(abort) {
  running = abort;
  byId("send").disabled = Boolean(abort);
  byId("stop").disabled = !abort;
  log.setAttribute("aria-busy", String(Boolean(abort)));
  showForms();
}

/** Sends a request and shows its answer as it comes. Resolves to its turn, undefined if it has none. */
async function run(place, request, key, signal) {
  const node = make("article", place);
  make("h3", node, byId("with-compare").checked ? `${request.model}, ${request.format}` : request.model);
  const shows = answerIn(node, request, say);
  const { exchange, shown } = shows;
  let broken = false;
  try {
    const reply = await fetch(request.path, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: request.text,
      signal,
      credentials: "omit",
    });
    exchange.requestId = reply.headers.get("x-request-id");
    exchange.head = [`HTTP ${reply.status}`, ...[...reply.headers].map((field) => field.join(": "))].join("\n");
    if (reply.ok && request.stream) await readEvents(request.format, reply.body, shows);
    else await readReply(request.format, reply, shows);
    say(shown.failed ? `failed, status ${reply.status}` : "", shown.failed);
  } catch {
    broken = true;
    if (signal.aborted) say("stopped");
    else shows.take({ error: "The connection broke off.", raw: exchange.raw.slice(-500) });
  }
  const turn = shows.end(broken);
  return turn && { turn, finish: () => finish(turn, place, shows.bar, shows.said) };
}

/** Asks for the answer to `turns`, whose last one is a message or results; others are as they were if it has none. */
async function answer(turns) {
  const key = byId("key").value.trim();
  if (key === "") {
    say("Paste the API key first: it is among the lines that npm start prints.", true);
    byId("key").focus();
    return;
  }
  let requests;
  try {
    requests = sides().map((side) => requestOf(turns, side));
  } catch (error) {
    say(error.message, true);
    return;
  }
  const own = talk;
  const before = own.turns;
  own.turns = turns;
  render();
  const abort = new AbortController();
  setRunning(abort);
  byId("examples").hidden = true;
  byId("text").value = "";
  say("waiting");
  const place = make("div", log, "", requests.length > 1 ? "pair" : "");
  scrollTo(0, document.documentElement.scrollHeight);
  const [first] = await Promise.all(requests.map((request) => run(place, request, key, abort.signal)));
  own.turns = first ? [...turns, first.turn] : before;
  setRunning(undefined);
  // It may have been deleted, or another one opened.
  if (own !== talk) return;
  if (first) first.finish();
  else showFailed(turns.at(-1), place);
  save();
  atEnd(showForms);
}

/** Shows the conversation as it is, and behind it the message or results without an answer, with what came at `place`. */
function showFailed(last, place) {
  const shown = talk.turns.map((turn) => nodes.get(turn));
  if (talk.turns.includes(last)) log.replaceChildren(...shown, place);
  else {
    const node = nodes.get(last);
    node.firstChild.textContent += ", without an answer: not part of the conversation";
    node.querySelector(".views")?.remove();
    log.replaceChildren(...shown, node, place);
    if (last.text) byId("text").value ||= last.text;
  }
}

/** Sends the message in the field. */
async function ask() {
  const text = textIn("text");
  if (!text || running) return;
  if (!edited && openCalls().length > 0) {
    say("Send the results of the calls first, or edit the message.", true);
    return;
  }
  const images = await Promise.all([...byId("images").files].map(dataUrl));
  const turns = edited ? talk.turns.slice(0, talk.turns.indexOf(edited)) : talk.turns;
  const next = { role: "user", text, images: images.length > 0 ? images : edited?.images };
  byId("images").value = "";
  await answer([...turns, next]);
}

/** Resolves to a file as a data URL. */
function dataUrl(file) {
  const reader = new FileReader();
  return new Promise((resolve, reject) => {
    reader.onload = () => resolve(reader.result);
    reader.onerror = reject;
    reader.readAsDataURL(file);
  });
}

/** Opens a conversation, a new one by default. */
function open(other = { turns: [] }) {
  running?.abort();
  talk = other;
  say("");
  render();
}

/** Offers the models that the key may use. */
async function listModels() {
  const key = byId("key").value.trim();
  keep("api-key", key);
  if (key === "" || key === listedFor) return;
  listedFor = key;
  const reply = await fetch("/v1/models", { headers: { authorization: `Bearer ${key}` }, credentials: "omit" }).catch(
    () => undefined,
  );
  const { data = [] } = reply?.ok ? await reply.json() : {};
  for (const select of [byId("model"), byId("model-2")]) {
    const chosen = select.value;
    select.replaceChildren();
    for (const { id, display_name } of data) make("option", select, `${id}: ${display_name}`).value = id;
    if (data.some(({ id }) => id === chosen)) select.value = chosen;
  }
  const [weights, ...others] = new Set(data.map(({ display_name }) => display_name.split(STANDS_IN)[0]));
  const isOne = data.length > 1 && others.length === 0;
  byId("weights").textContent = isOne
    ? `All models here are one: ${weights}. To try another: npm start -- --model FILE`
    : "";
  showFields();
  say(reply?.ok ? `this key may use ${data.length} models` : "this key does not open the service", !reply?.ok);
}

/** Reads the key from the fragment of the URL, which no server sees, or from the tab's storage. */
function findKey() {
  const given = /^#key=([\x21-\x7e]+)$/.exec(location.hash)?.[1];
  if (given) history.replaceState(null, "", location.pathname);
  byId("key").value = given ?? kept("api-key") ?? byId("key").value;
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

/** Shows the fields of the boxes that are ticked and of the formats that are chosen. */
function showFields() {
  for (const field of document.querySelectorAll("[data-of]")) field.hidden = !byId(`with-${field.dataset.of}`).checked;
  const formats = sides().map((side) => byId(`format${side}`).value);
  for (const field of document.querySelectorAll("[data-in]"))
    field.hidden = !formats.some((format) => field.dataset.in.includes(format));
  byId("chosen").textContent = `${byId("model").value}, ${formats.join(" and ")}`;
}

byId("tools").value = JSON.stringify([WEATHER_TOOL], undefined, 2);
byId("schema").value = JSON.stringify(CITY_SCHEMA, undefined, 2);
for (const [text, box] of EXAMPLES)
  press(byId("examples"), text, () => {
    for (const id of ["with-tools", "with-schema"]) byId(id).checked = id === box;
    showFields();
    // The demonstration model is at its best there.
    byId("temperature").value = "0";
    byId("text").value = text;
    byId("ask").requestSubmit();
  });
byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  void ask();
});
byId("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("ask").requestSubmit();
});
byId("show-reference").addEventListener("click", () => void toggleReference());
byId("stop").addEventListener("click", () => running?.abort());
byId("cancel").addEventListener("click", () => {
  byId("text").value = "";
  say("");
  edit();
});
byId("clear").addEventListener("click", () => open());
byId("delete").addEventListener("click", () => {
  const at = talks.indexOf(talk);
  if (at >= 0) talks.splice(at, 1);
  open(talks.at(-1));
  save();
});
byId("export").addEventListener("click", () => download("conversation.json", talk));
byId("talks").addEventListener("change", ({ target }) => open(talks[target.selectedIndex]));
byId("keep").checked = keeps();
byId("keep").addEventListener("change", ({ target }) => {
  setKeeping(target.checked);
  keep("api-key", byId("key").value.trim());
  save();
});
for (const form of ["settings", "access"]) byId(form).addEventListener("submit", (event) => event.preventDefault());
byId("settings").addEventListener("input", showFields);
byId("key").addEventListener("change", () => void listModels());
window.addEventListener("hashchange", findKey);
byId("request").open = innerWidth > 760;
render();
showFields();
findKey();
