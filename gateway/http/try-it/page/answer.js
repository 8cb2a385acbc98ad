/* An answer: its text as its parts arrive, and the views of its exchange with the service. */
import { CODE } from "./code.js";
import { make, press } from "./dom.js";
import { fold, showFields, showJson } from "./fold.js";
import { keptReasoning, parsed } from "./formats.js";
import { showMarkdown } from "./markdown.js";

/** The most characters of a reply that the views show. */
const MOST_KEPT = 2 ** 20;

/** Returns the telling part of an event in short. */
function gist(event) {
  const { choices: [{ delta } = event] = [event] } = event;
  return typeof event === "string" ? "" : JSON.stringify(delta ?? event).slice(0, 160);
}

/** Appends the events that are not shown yet. */
function showEvents(node, { events, request }) {
  if (!request.stream && !node.firstChild) make("p", node, "This reply is one document, without events: tick Stream.");
  for (const { ms, event } of request.stream ? events.slice(node.childElementCount) : [])
    fold(node, `+${(ms / 1000).toFixed(3)} s ${event.type ?? event.object ?? event}`, gist(event), (part) =>
      showFields(part, event),
    );
}

/** The views beside the text, each with the text that Copy takes. */
const VIEWS = {
  Events: { show: showEvents, copied: ({ raw }) => raw },
  Reply: {
    show(node, { head, raw }) {
      make("pre", node, head);
      const body = parsed(raw);
      if (Object.keys(body).length > 0) showJson(node, body, 2);
      else make("pre", node, raw);
    },
    copied: ({ raw }) => raw,
  },
  Request: {
    show(node, { request }) {
      make("pre", node, `POST ${request.path}`);
      showJson(node, JSON.parse(request.text), 2);
    },
    copied: ({ request }) => request.text,
  },
};
for (const [name, codeOf] of Object.entries(CODE)) {
  const copied = ({ request }) => codeOf(location.origin, request);
  VIEWS[name] = { show: (node, exchange) => make("pre", node, copied(exchange)), copied };
}

/** Appends the buttons that select a view, and the views. Returns the place of the text, and `update` for more events. */
function makeViews(node, exchange, say) {
  const bar = make("div", node, "", "views row");
  const said = make("div", node, "", "said");
  const wire = make("div", node, "", "wire");
  let view = "Text";
  const buttons = ["Text", ...Object.keys(VIEWS)].map((name) => press(bar, name, () => show(name)));
  const copy = press(bar, "Copy", () => {
    navigator.clipboard.writeText(VIEWS[view].copied(exchange)).then(
      () => say("copied"),
      () => say("the browser did not let it be copied", true),
    );
  });
  function show(name) {
    view = name;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.textContent === name));
    said.hidden = name !== "Text";
    wire.hidden = name === "Text";
    // A page over plain HTTP may not write to the clipboard.
    copy.hidden = wire.hidden || !navigator.clipboard;
    wire.replaceChildren();
    VIEWS[name]?.show(wire, exchange);
  }
  show(view);
  return { bar, said, update: () => view === "Events" && showEvents(wire, exchange) };
}

/** Scrolls to the end of the page, where it was there before `change`. */
export function atEnd(change) {
  const page = document.documentElement;
  const was = page.scrollHeight - scrollY - innerHeight < 60;
  change();
  if (was) scrollTo(0, page.scrollHeight);
}

/** Appends the call of a tool, and returns the place of its arguments. */
export function showCall(parent, { name, text = "" }) {
  return make("code", make("p", parent, "calls ", "call"), `${name} ${text}`);
}

/** Shows an answer in `node` as its parts arrive; `say` shows a status. */
export function answerIn(node, request, say) {
  const exchange = { request, startedMs: performance.now(), raw: "", events: [], head: "no reply yet" };
  const { bar, said, update } = makeViews(node, exchange, say);
  const facts = make("p", node, "", "facts dim");
  const shown = { text: "", calls: new Map(), seals: [], reasoned: [""], failed: false };
  const places = {};
  const sinceMs = () => performance.now() - exchange.startedMs;
  const add = (name, more) =>
    atEnd(() => {
      places[name] ??= make(name === "text" ? "div" : "p", said, "", name);
      places[name].append(more);
    });
  return {
    ...{ exchange, shown, bar, said },
    note(text) {
      exchange.raw += text.slice(0, MOST_KEPT - exchange.raw.length);
    },
    saw(event) {
      if (exchange.raw.length < MOST_KEPT) exchange.events.push({ ms: sinceMs(), event });
      update();
    },
    take({ text, reasoning, seal, calls = [], error, raw, ...counts }) {
      if (text || reasoning || calls.length > 0) shown.firstMs ??= sinceMs();
      if (reasoning) {
        add("reasoning", reasoning);
        shown.reasoned.push(shown.reasoned.pop() + reasoning);
      }
      if (seal) {
        shown.seals.push(seal);
        shown.reasoned.push("");
      }
      if (text) add("text", text);
      shown.text += text ?? "";
      for (const { at, text: more = "", ...call } of calls) {
        if (!shown.calls.has(at)) shown.calls.set(at, { ...call, text: "", place: showCall(said, call) });
        const known = shown.calls.get(at);
        known.text += more;
        known.place.append(more);
      }
      for (const [name, count] of Object.entries(counts)) shown[name] = count ?? shown[name];
      if (!error) return;
      shown.failed = true;
      make("p", said, error, "error");
      make("pre", said, raw);
    },
    /** Writes the facts of the answer. Returns its turn; undefined if it has said nothing or has failed in a call. */
    end(broken) {
      if (shown.text && !request.schema) showMarkdown(places.text, shown.text);
      facts.textContent = shown.failed || broken ? (exchange.requestId ?? "") : summary(shown, exchange, sinceMs());
      const calls = broken || shown.failed ? [] : [...shown.calls.values()].map(({ place: _, ...call }) => call);
      if (!shown.text && calls.length === 0) return undefined;
      const items = keptReasoning(request.format, shown.seals, shown.reasoned);
      const kept = items.length > 0 ? { format: request.format, items } : undefined;
      return { role: "assistant", model: request.model, text: shown.text, calls, kept, facts: facts.textContent };
    },
  };
}

/** Returns the times and token counts of an answer in words. */
function summary({ firstMs, input, cached, output }, { requestId, request }, ms) {
  const seconds = (time) => `${(time / 1000).toFixed(1)} s`;
  const parts = [`done in ${seconds(ms)}`];
  if (firstMs !== undefined) parts.push(`first token after ${seconds(firstMs)}`);
  if (input !== undefined) parts.push(`${input} tokens in${cached ? ` (${cached} from the cache)` : ""}`);
  const [tokens, writingMs] = request.stream ? [output - 1, ms - firstMs] : [output, ms];
  if (output !== undefined)
    parts.push(`${output} out${tokens > 0 ? ` (${(tokens / (writingMs / 1000)).toFixed(1)} a second)` : ""}`);
  return [...parts, requestId].join(", ");
}
