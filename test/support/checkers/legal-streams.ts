import { isDeepStrictEqual } from "node:util";
import { BREAK } from "../../../deploy/runtime/contract/broken-arguments.ts";
import { chat } from "../../../gateway/formats/chat/request.ts";
import type { Format } from "../../../gateway/formats/format.ts";
import { messages } from "../../../gateway/formats/messages/request.ts";
import { responses } from "../../../gateway/formats/responses/request.ts";
import { valueAt } from "../http/value-at.ts";
import { begun, type Frame, isObjectText, must, mustBeIds, mustMatch, type Steps, whole } from "./stream-text.ts";

/*
 * The rules of the formats' streams (formats/README.md, whose numbers the messages name), written independently of the
 * encoders: the order of frames as a regular expression, and the agreement of fields between frames. The schemas of the
 * published document have the fields of each frame.
 */

/** A kind of body that changes the contents of its stream. */
export type Variant = {
  readonly body: object;
  /** Throws `StreamFault` unless the frames are a legal stream for the body. */
  check(frames: readonly Frame[]): void;
};

/** A format with the kinds of its bodies; the golden transcripts were made with the first one. */
export type CheckedFormat = { readonly format: Format; readonly variants: readonly [Variant, ...Variant[]] };

type Call = { readonly id: unknown; text: string };

/** Calls to be run have whole arguments, unless the answer was truncated in its last block; broken ones show it. */
function checkCalls(calls: readonly Call[], prefix: string, isLastTruncated: boolean): void {
  mustBeIds(
    calls.map(({ id }) => id),
    prefix,
  );
  for (const { text } of isLastTruncated ? calls.slice(0, -1) : calls)
    must(isObjectText(text) || text.includes(BREAK), "the arguments of a whole call are a JSON object");
}

function numbersAt(json: unknown, ...keys: readonly string[]): readonly number[] {
  const numbers = keys.map((key) => Number(valueAt(json, ...key.split("."))));
  must(
    numbers.every((number) => Number.isSafeInteger(number) && number >= 0),
    "counters are whole numbers",
  );
  return numbers;
}

const CHAT_WORDS: Readonly<Record<string, string>> = { role: "role", content: "text", reasoning_content: "reasoning" };

function chatWord({ event, data }: Frame): string {
  if (data === undefined) return "alive";
  must(event === undefined, "this format has no event lines");
  if (data === "[DONE]") return "done";
  if (valueAt(data, "error")) return "error";
  const choices = valueAt(data, "choices");
  must(Array.isArray(choices), "rule 3: choices is a list");
  if (choices.length === 0) return "usage";
  const keys = Object.keys(valueAt(data, "choices", 0, "delta") as object);
  if (valueAt(data, "choices", 0, "finish_reason") !== null) return `finish${keys.join()}`;
  if (keys.join() === "tool_calls") return fragmentOf(data, "id") === undefined ? "arguments" : "call";
  return CHAT_WORDS[keys.join().replace("role,content", "role")] ?? keys.join();
}

function fragmentOf(chunk: unknown, ...path: readonly string[]): unknown {
  return valueAt(chunk, "choices", 0, "delta", "tool_calls", 0, ...path);
}

/** Throws `StreamFault` unless the frames are a legal stream of the format. */
export function checkChat(frames: readonly Frame[], includeUsage: boolean): void {
  const words = frames.map(chatWord);
  // A call without a piece of its arguments cannot be parsed: only a truncated answer ends so.
  const answer = "role (?:reasoning |text |call (?:arguments )+)*(?:call )?";
  mustMatch(words, `(?:${answer}(?:finish ${includeUsage ? "usage " : ""}|error )|error )done `);
  const chunks = frames.map(({ data }) => data).filter((data) => valueAt(data, "choices") !== undefined);
  const heads = chunks.map((chunk) => JSON.stringify(["id", "created", "model"].map((key) => valueAt(chunk, key))));
  must(new Set(heads).size <= 1, "rule 1: id, created and model are the same on every chunk");
  for (const chunk of chunks) {
    const isLast = valueAt(chunk, "choices", 0) === undefined;
    must(Object.hasOwn(chunk as object, "usage") === includeUsage, "rule 6: usage is there where it was asked for");
    must(!includeUsage || isLast || valueAt(chunk, "usage") === null, "rule 6: usage is null until the last chunk");
    if (!isLast) continue;
    const [prompt = 0, answered = 0, sum] = numbersAt(
      valueAt(chunk, "usage"),
      ...["prompt_tokens", "completion_tokens", "total_tokens"],
    );
    must(sum === prompt + answered, "total_tokens is the sum");
  }
  const calls: Call[] = [];
  for (const chunk of chunks) {
    if (fragmentOf(chunk) === undefined) continue;
    if (fragmentOf(chunk, "id") !== undefined) calls.push({ id: fragmentOf(chunk, "id"), text: "" });
    must(fragmentOf(chunk, "index") === calls.length - 1, "rule 4: indexes are dense, and of the last call");
    const call = calls.at(-1);
    if (call) call.text += String(fragmentOf(chunk, "function", "arguments"));
  }
  const reason = chunks.map((chunk) => valueAt(chunk, "choices", 0, "finish_reason")).find(Boolean);
  must(reason !== "tool_calls" || calls.length > 0, "tool_calls needs a call");
  const isInCall = /(?:call|arguments) (?:alive )*finish/.test(words.join(" "));
  checkCalls(calls, "call_", reason === undefined || (isInCall && /length|content_filter/.test(String(reason))));
}

type Thinking = "shown" | "omitted" | "none";

const TEXT_BLOCK: Steps = ["text ", "(?:text_delta )+", "stop "];
const TOOL_BLOCK: Steps = ["tool_use ", "(?:input_json_delta )*", "stop "];
/** Rule 8: a withheld thought has a signature and no text. */
const THINKING_BLOCKS: Readonly<Record<Thinking, Steps>> = {
  shown: ["thinking ", "(?:thinking_delta )+", "signature_delta ", "stop "],
  omitted: ["thinking ", "signature_delta ", "stop "],
  none: [],
};

/** The type of an event, which its event line repeats. */
function typeOf({ event, data }: Frame): string {
  must(typeof event === "string" && event === valueAt(data, "type"), "the event line is the type of the data");
  return event;
}

function messagesWord(frame: Frame): string {
  const type = typeOf(frame);
  if (type === "ping") return "alive";
  if (type === "content_block_stop") return "stop";
  return String(valueAt(frame.data, "content_block", "type") ?? valueAt(frame.data, "delta", "type") ?? type);
}

/** Rule 1: the prompt is the sum of three counters. */
function promptOf(usage: unknown): number {
  const counters = numbersAt(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens");
  return counters.reduce((sum, counter) => sum + counter, 0);
}

/** Throws `StreamFault` unless the frames are a legal stream of the format. */
export function checkMessages(frames: readonly Frame[], thinking: Thinking): void {
  const words = frames.map(messagesWord);
  const blocks = [TEXT_BLOCK, TOOL_BLOCK, THINKING_BLOCKS[thinking]].filter((steps) => steps.length > 0);
  const one = (form: (steps: Steps) => string) => `(?:${blocks.map(form).join("|")})`;
  mustMatch(words, `message_start ${one(whole)}*(?:message_delta message_stop |${one(begun)}error )|error `);
  let index = -1;
  let prompt = 0;
  const calls: Call[] = [];
  for (const { data } of frames) {
    const block = valueAt(data, "content_block");
    if (block) index += 1;
    must((valueAt(data, "index") ?? index) === index, "rule 2: indexes are dense, and one block is open at a time");
    if (valueAt(block, "type") === "tool_use") calls.push({ id: valueAt(block, "id"), text: "" });
    const call = calls.at(-1);
    if (call) call.text += String(valueAt(data, "delta", "partial_json") ?? "");
    if (valueAt(data, "message")) prompt = promptOf(valueAt(data, "message", "usage"));
    const reason = valueAt(data, "delta", "stop_reason");
    if (reason === undefined) continue;
    const isNamed = typeof valueAt(data, "delta", "stop_sequence") === "string";
    must(isNamed === (reason === "stop_sequence"), "stop_sequence names the string");
    must(reason !== "tool_use" || calls.length > 0, "tool_use needs a tool use");
    must(promptOf(valueAt(data, "usage")) === prompt, "the counters add up to the same prompt at start and end");
    const isInCall = words.lastIndexOf("tool_use") > Math.max(words.lastIndexOf("text"), words.lastIndexOf("thinking"));
    // Rule 4: no piece at all is an empty object.
    const inputs = calls.map(({ id, text }) => ({ id, text: text || "{}" }));
    checkCalls(inputs, "toolu_", isInCall && /max_tokens|window|refusal/.test(String(reason)));
  }
}

type Reasoning = "none" | "summary" | "text";

const MESSAGE_ITEM: Steps = [
  "message ",
  "content_part.added ",
  "(?:output_text.delta )*",
  "output_text.done ",
  "content_part.done ",
  "output_item.done ",
];
const CALL_ITEMS = {
  function: [
    "function_call ",
    "(?:function_call_arguments.delta )*",
    "function_call_arguments.done ",
    "output_item.done ",
  ],
  custom: [
    "custom_tool_call ",
    "(?:custom_tool_call_input.delta )*",
    "custom_tool_call_input.done ",
    "output_item.done ",
  ],
} as const satisfies Readonly<Record<string, Steps>>;
/** Without reasoning there is no item, so there is at least one delta. */
const REASONING_ITEMS: Readonly<Record<Reasoning, Steps>> = {
  none: [],
  summary: [
    "reasoning ",
    "reasoning_summary_part.added ",
    "(?:reasoning_summary_text.delta )+",
    "reasoning_summary_text.done ",
    "reasoning_summary_part.done ",
    "output_item.done ",
  ],
  text: [
    "reasoning ",
    "content_part.added ",
    "(?:reasoning_text.delta )+",
    "reasoning_text.done ",
    "content_part.done ",
    "output_item.done ",
  ],
};

function responsesWord(frame: Frame): string {
  const type = typeOf(frame).replace("response.", "");
  if (type === "keepalive") return "alive";
  return type === "output_item.added" ? String(valueAt(frame.data, "item", "type")) : type;
}

/** An item as a client assembles it from the announced one and the text of its deltas. */
function assembled(added: object, text: string, status: unknown): object {
  switch (valueAt(added, "type")) {
    case "message":
      return { ...added, status, content: [{ type: "output_text", text, annotations: [], logprobs: [] }] };
    case "reasoning":
      return Object.hasOwn(added, "content")
        ? { ...added, status, content: [{ type: "reasoning_text", text }] }
        : { ...added, status, summary: [{ type: "summary_text", text }] };
    case "custom_tool_call":
      return { ...added, status, input: text };
    default:
      return { ...added, status, arguments: text };
  }
}

/** What the items of an answer are like. */
type Shown = { readonly reasoning: Reasoning; readonly isSealed: boolean; readonly call?: keyof typeof CALL_ITEMS };

/** Fields that differ between the lifecycle events of one response. */
const CHANGING = ["status", "completed_at", "error", "incomplete_details", "output", "output_text", "usage"];

/** Throws `StreamFault` unless the frames are a legal stream of the format. */
export function checkResponses(frames: readonly Frame[], { reasoning, isSealed, call = "function" }: Shown): void {
  const words = frames.map(responsesWord);
  must(/^created in_progress\b/.test(words.join(" ")), "nothing stands before the first two events");
  const items = [MESSAGE_ITEM, CALL_ITEMS[call], REASONING_ITEMS[reasoning]].filter((steps) => steps.length > 0);
  const one = (form: (steps: Steps) => string) => `(?:${items.map(form).join("|")})`;
  mustMatch(words, `created in_progress ${one(whole)}*(?:completed |incomplete |${one(begun)}failed )`);
  const done: unknown[] = [];
  let open: { readonly added: object; text: string } | undefined;
  const checkItem = (item: unknown): void => {
    const { encrypted_content: seal, ...rest } = item as Readonly<Record<string, unknown>>;
    must(open !== undefined, "a finished item was open");
    must(isDeepStrictEqual(rest, assembled(open.added, open.text, rest.status)), "an item has the text of its deltas");
    must((seal !== undefined) === (isSealed && rest.type === "reasoning"), "reasoning is sealed where asked for");
    const isWhole = rest.status === "completed" && rest.type === "function_call";
    must(!isWhole || isObjectText(open.text), "the arguments of a whole call are a JSON object");
  };
  for (const [number, { data }] of frames.entries()) {
    must(valueAt(data, "sequence_number") === number, "sequence numbers are dense");
    must((valueAt(data, "output_index") ?? done.length) === done.length, "items come in the order of their index");
    const id = valueAt(data, "item_id") ?? valueAt(data, "item", "id");
    const word = words[number] ?? "";
    if (word === valueAt(data, "item", "type")) open = { added: valueAt(data, "item") as object, text: "" };
    must(id === undefined || id === valueAt(open?.added, "id"), "an event is of the open item");
    if (word.endsWith(".delta") && open) open.text += String(valueAt(data, "delta"));
    const said =
      valueAt(data, "text") ?? valueAt(data, "arguments") ?? valueAt(data, "input") ?? valueAt(data, "part", "text");
    must(said === undefined || said === (word.endsWith(".added") ? "" : open?.text), "a text is that of the deltas");
    if (word !== "output_item.done") continue;
    checkItem(valueAt(data, "item"));
    done.push(valueAt(data, "item"));
    open = undefined;
  }
  const snapshots = frames.map(({ data }) => valueAt(data, "response")).filter((response) => response !== undefined);
  const repeated = snapshots.map((response) =>
    JSON.stringify(Object.entries(response as object).filter(([key]) => !CHANGING.includes(key))),
  );
  must(new Set(repeated).size === 1, "what repeats the request is the same in every event");
  for (const begin of snapshots.slice(0, 2))
    must(isDeepStrictEqual(valueAt(begin, "output"), []) && valueAt(begin, "usage") === null, "it begins empty");
  const final = snapshots.at(-1);
  const output = valueAt(final, "output") as readonly unknown[];
  must(isDeepStrictEqual(output.slice(0, done.length), done), "output holds the items that were announced as done");
  const rest = output.slice(done.length);
  must(rest.length === (open ? 1 : 0), "output holds what was announced and nothing else");
  for (const item of rest) checkItem(item);
  for (const [at, item] of output.entries()) {
    const mayBeCut = at === output.length - 1 && words.at(-1) !== "completed";
    must(/^(?:completed|incomplete)$/.test(String(valueAt(item, "status"))), "an item ends with a status");
    const isBroken = String(valueAt(item, "arguments") ?? valueAt(item, "input")).includes(BREAK);
    const status = isBroken ? "incomplete" : "completed";
    must(mayBeCut || valueAt(item, "status") === status, "an item is completed unless it is cut or broken");
  }
  checkOutcome(final, words.at(-1));
  const texts = output.map((item) => (valueAt(item, "type") === "message" ? valueAt(item, "content", 0, "text") : ""));
  must(valueAt(final, "output_text") === texts.join(""), "output_text is the text of all messages");
  const idsOf = (type: string, key: string) =>
    output.filter((item) => valueAt(item, "type") === type).map((item) => valueAt(item, key));
  for (const [type, prefix] of Object.entries({
    message: "msg_",
    reasoning: "rs_",
    function_call: "fc_",
    custom_tool_call: "ctc_",
  }))
    mustBeIds(idsOf(type, "id"), prefix);
  for (const type of ["function_call", "custom_tool_call"]) mustBeIds(idsOf(type, "call_id"), "call_");
}

function checkOutcome(final: unknown, status: string | undefined): void {
  must(valueAt(final, "status") === status, "the status is that of the event");
  const ends = { completed: "completed_at", failed: "error", incomplete: "incomplete_details" };
  for (const [end, key] of Object.entries(ends))
    must((valueAt(final, key) !== null) === (status === end), `${key} is set when ${end}`);
  const usage = valueAt(final, "usage");
  must((usage === null) === (status === "failed"), "only a failed response has no usage");
  if (usage === null) return;
  const [input = 0, output = 0, sum] = numbersAt(usage, "input_tokens", "output_tokens", "total_tokens");
  must(sum === input + output, "total_tokens is the sum");
}

const turn = [{ role: "user", content: "hi" }];

function chatVariant(includeUsage: boolean): Variant {
  return {
    body: { model: "svc-qwen", messages: turn, stream: true, stream_options: { include_usage: includeUsage } },
    check: (frames) => checkChat(frames, includeUsage),
  };
}

function messagesVariant(kind: Thinking, thinking: object): Variant {
  return {
    body: { model: "svc-qwen", messages: turn, stream: true, max_tokens: 4_096, thinking },
    check: (frames) => checkMessages(frames, kind),
  };
}

function responsesVariant(shown: Shown): Variant {
  const summary = shown.reasoning === "summary" ? "auto" : null;
  const include = shown.isSealed ? ["reasoning.encrypted_content"] : [];
  const tools = shown.call ? [{ type: shown.call, name: "read" }] : [];
  return {
    body: { model: "svc-qwen", input: "hi", stream: true, reasoning: { summary }, include, tools },
    check: (frames) => checkResponses(frames, shown),
  };
}

export const CHECKED_FORMATS: readonly CheckedFormat[] = [
  { format: chat, variants: [chatVariant(true), chatVariant(false)] },
  {
    format: messages,
    variants: [
      messagesVariant("shown", { type: "enabled", budget_tokens: 1_024 }),
      messagesVariant("omitted", { type: "enabled", budget_tokens: 1_024, display: "omitted" }),
      messagesVariant("none", { type: "disabled" }),
    ],
  },
  {
    format: responses,
    variants: [
      responsesVariant({ reasoning: "summary", isSealed: true }),
      responsesVariant({ reasoning: "text", isSealed: true }),
      responsesVariant({ reasoning: "none", isSealed: false, call: "custom" }),
    ],
  },
];
