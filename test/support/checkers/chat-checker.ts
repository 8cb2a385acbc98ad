import { type Frame, parseObject } from "./frames.ts";
import { Machine, must, type Transitions } from "./machine.ts";
import {
  asCount,
  asId,
  asObject,
  asPiece,
  asText,
  exactKeys,
  isObjectText,
  type JsonObject,
  onlyObject,
} from "./shape.ts";

type State =
  | "start"
  | "begun"
  | "in_reasoning"
  | "in_text"
  | "call_begun"
  | "in_call"
  | "finished"
  | "usage_sent"
  | "failed"
  | "done";

type Kind =
  | "keep_alive"
  | "role"
  | "reasoning"
  | "text"
  | "call"
  | "arguments"
  | "finish"
  | "usage"
  | "error"
  | "done_marker";

const block = {
  keep_alive: "begun",
  reasoning: "in_reasoning",
  text: "in_text",
  call: "call_begun",
  finish: "finished",
  error: "failed",
} as const;

/** The legal sequences of Format A ("Stream of chat" in formats/README.md, whose rules the comments number). */
export const CHAT_TRANSITIONS: Transitions<State, Kind> = {
  start: { keep_alive: "start", role: "begun", error: "failed" },
  begun: block,
  in_reasoning: { ...block, keep_alive: "in_reasoning" },
  in_text: { ...block, keep_alive: "in_text" },
  // A call without a piece of its arguments cannot be parsed: only a truncated answer ends so.
  call_begun: { keep_alive: "call_begun", arguments: "in_call", finish: "finished", error: "failed" },
  in_call: { ...block, keep_alive: "in_call", arguments: "in_call" },
  finished: { keep_alive: "finished", usage: "usage_sent", done_marker: "done" },
  usage_sent: { keep_alive: "usage_sent", done_marker: "done" },
  failed: { keep_alive: "failed", done_marker: "done" },
  done: {},
};

type Call = { readonly id: string; arguments: string };

/** Accepts exactly the streams of Format A. Frames are taken one by one; `end` marks the end of the stream. */
export class ChatChecker {
  readonly #machine: Machine<State, Kind>;
  readonly #includeUsage: boolean;
  readonly #calls: Call[] = [];
  #identity: string | undefined;

  constructor(asked: { readonly includeUsage: boolean }, taken: Set<string> = new Set()) {
    this.#machine = new Machine<State, Kind>(CHAT_TRANSITIONS, "start", taken);
    this.#includeUsage = asked.includeUsage;
  }

  /** Takes the next frame. Throws `StreamFault` for one that is not allowed here or malformed. */
  take(frame: Frame): void {
    if (frame.kind === "comment") {
      this.#machine.step("keep_alive");
      return;
    }
    must(frame.event === undefined, "this format has no event lines");
    if (frame.data === "[DONE]") {
      must(this.#machine.state !== "finished" || !this.#includeUsage, "rule 6: usage stands before the marker");
      this.#machine.step("done_marker");
      return;
    }
    const data = parseObject(frame.data);
    if (Object.hasOwn(data, "error")) this.#error(data);
    else this.#chunk(data);
  }

  /** Ends the stream. Throws `StreamFault` if the end is not allowed here. */
  end(): void {
    must(this.#machine.state === "done", "a stream ends with the marker");
  }

  #error(data: JsonObject): void {
    exactKeys(data, ["error"]);
    const error = asObject(data.error, "error");
    exactKeys(error, ["message", "type", "code", "param"]);
    for (const key of ["message", "type", "code"]) asPiece(error[key], key);
    this.#machine.step("error");
  }

  /** Rules 1, 3, 6 and 7: the fields of every chunk. */
  #chunk(data: JsonObject): void {
    const usage = this.#includeUsage ? ["usage"] : [];
    exactKeys(data, ["id", "object", "created", "model", "choices", ...usage], ["service_tier", "system_fingerprint"]);
    must(data.object === "chat.completion.chunk", "object is chat.completion.chunk");
    asId(data.id, "chatcmpl-");
    asCount(data.created, "created");
    asPiece(data.model, "model");
    const identity = JSON.stringify([data.id, data.created, data.model]);
    this.#identity ??= identity;
    must(this.#identity === identity, "rule 1: id, created and model are the same on every chunk");
    must(Array.isArray(data.choices), "rule 3: choices is a list");
    if (data.choices.length === 0) {
      this.#usage(data);
      return;
    }
    must(!this.#includeUsage || data.usage === null, "rule 6: usage is null until the last chunk");
    this.#choice(onlyObject(data.choices, "choices"));
  }

  #usage(data: JsonObject): void {
    must(this.#includeUsage, "rule 6: usage comes only when it was asked for");
    const usage = asObject(data.usage, "usage");
    exactKeys(usage, [
      "prompt_tokens",
      "completion_tokens",
      "total_tokens",
      "prompt_tokens_details",
      "completion_tokens_details",
    ]);
    const prompt = asCount(usage.prompt_tokens, "prompt_tokens");
    const completion = asCount(usage.completion_tokens, "completion_tokens");
    must(usage.total_tokens === prompt + completion, "total_tokens is the sum");
    const details = asObject(usage.prompt_tokens_details, "prompt_tokens_details");
    exactKeys(details, ["cached_tokens"], ["cache_write_tokens"]);
    must(asCount(details.cached_tokens, "cached_tokens") <= prompt, "cached tokens are part of the prompt");
    const output = asObject(usage.completion_tokens_details, "completion_tokens_details");
    exactKeys(output, ["reasoning_tokens"]);
    asCount(output.reasoning_tokens, "reasoning_tokens");
    this.#machine.step("usage");
  }

  #choice(choice: JsonObject): void {
    exactKeys(choice, ["index", "delta", "logprobs", "finish_reason"]);
    must(choice.index === 0, "the choice is number 0");
    must(choice.logprobs === null || Array.isArray(asObject(choice.logprobs, "logprobs").content), "logprobs or null");
    const delta = asObject(choice.delta, "delta");
    const [key, ...more] = Object.keys(delta);
    if (choice.finish_reason !== null) {
      this.#finish(delta, choice.finish_reason);
      return;
    }
    if (key === "role") {
      this.#role(delta);
      return;
    }
    must(more.length === 0, "a delta has one field");
    if (key === "tool_calls") {
      this.#call(onlyObject(delta.tool_calls, "tool_calls"));
      return;
    }
    must(key === "content" || key === "reasoning_content", "a delta is role, content, reasoning_content or tool_calls");
    asPiece(delta[key], key);
    this.#machine.step(key === "content" ? "text" : "reasoning");
  }

  #role(delta: JsonObject): void {
    exactKeys(delta, ["role", "content"]);
    must(delta.role === "assistant" && delta.content === "", "rule 2: the role is assistant, its content empty");
    this.#machine.step("role");
  }

  /** Rule 4: id, type and name once; dense indexes; one call after the other. */
  #call(fragment: JsonObject): void {
    const body = asObject(fragment.function, "rule 4: function");
    if (Object.hasOwn(fragment, "id")) {
      exactKeys(fragment, ["index", "id", "type", "function"]);
      exactKeys(body, ["name", "arguments"]);
      must(fragment.index === this.#calls.length, "rule 4: indexes are dense");
      must(fragment.type === "function", "rule 4: the type is function");
      const id = asId(fragment.id, "call_");
      must(!this.#calls.some((call) => call.id === id), "rule 4: every call has an id of its own");
      asPiece(body.name, "name");
      this.#calls.push({ id, arguments: asText(body.arguments, "arguments") });
      this.#machine.step("call");
      return;
    }
    exactKeys(fragment, ["index", "function"]);
    exactKeys(body, ["arguments"]);
    const call = this.#calls.at(-1);
    must(call !== undefined && fragment.index === this.#calls.length - 1, "rule 4: a fragment is of the last call");
    call.arguments += asPiece(body.arguments, "arguments");
    this.#machine.step("arguments");
  }

  /** Rule 5; calls to be run have whole arguments, unless the answer was truncated in its last block. */
  #finish(delta: JsonObject, reason: unknown): void {
    exactKeys(delta, []);
    must(
      reason === "stop" || reason === "length" || reason === "tool_calls" || reason === "content_filter",
      "finish_reason",
    );
    must(reason !== "tool_calls" || this.#calls.length > 0, "tool_calls needs a call");
    const cut = reason === "length" || reason === "content_filter";
    const inCall = this.#machine.state === "call_begun" || this.#machine.state === "in_call";
    const whole = cut && inCall ? this.#calls.slice(0, -1) : this.#calls;
    for (const call of whole) must(isObjectText(call.arguments), "the arguments of a whole call are a JSON object");
    this.#machine.step("finish");
  }
}
