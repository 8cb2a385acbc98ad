import { type Frame, typedData } from "./frames.ts";
import { Machine, must, StreamFault, type Transitions } from "./machine.ts";
import { asCount, asId, asObject, asPiece, asText, exactKeys, isObjectText, type JsonObject } from "./shape.ts";

type State =
  | "start"
  | "between_blocks"
  | "text_begun"
  | "in_text"
  | "thinking_begun"
  | "in_thinking"
  | "thinking_signed"
  | "in_tool_use"
  | "stopping"
  | "done"
  | "failed";

type Kind =
  | "ping"
  | "message_start"
  | "text_start"
  | "thinking_start"
  | "tool_use_start"
  | "text_delta"
  | "thinking_delta"
  | "signature_delta"
  | "input_json_delta"
  | "block_stop"
  | "message_delta"
  | "message_stop"
  | "error";

/** The legal sequences of Format B ("Stream of messages" in formats/README.md, whose rules the comments number). */
export const MESSAGES_TRANSITIONS: Transitions<State, Kind> = {
  start: { ping: "start", message_start: "between_blocks", error: "failed" },
  between_blocks: {
    ping: "between_blocks",
    text_start: "text_begun",
    thinking_start: "thinking_begun",
    tool_use_start: "in_tool_use",
    message_delta: "stopping",
    error: "failed",
  },
  // Some clients reject an empty block.
  text_begun: { ping: "text_begun", text_delta: "in_text", error: "failed" },
  in_text: { ping: "in_text", text_delta: "in_text", block_stop: "between_blocks", error: "failed" },
  // A withheld thought has a signature and no text.
  thinking_begun: {
    ping: "thinking_begun",
    thinking_delta: "in_thinking",
    signature_delta: "thinking_signed",
    error: "failed",
  },
  in_thinking: {
    ping: "in_thinking",
    thinking_delta: "in_thinking",
    signature_delta: "thinking_signed",
    error: "failed",
  },
  thinking_signed: { ping: "thinking_signed", block_stop: "between_blocks", error: "failed" },
  in_tool_use: { ping: "in_tool_use", input_json_delta: "in_tool_use", block_stop: "between_blocks", error: "failed" },
  stopping: { ping: "stopping", message_stop: "done", error: "failed" },
  done: {},
  failed: {},
};

const STARTS = { text: "text_start", thinking: "thinking_start", tool_use: "tool_use_start" } as const;

const STOP_REASONS = [
  "end_turn",
  "max_tokens",
  "stop_sequence",
  "tool_use",
  "refusal",
  "model_context_window_exceeded",
] as const;

/** The reasoning display of the request, which controls the blocks of its stream. */
export type MessagesAsked = { readonly thinking: "shown" | "omitted" | "none" };

/** Accepts exactly the streams of Format B. */
export class MessagesChecker {
  readonly #machine: Machine<State, Kind>;
  readonly #asked: MessagesAsked;
  readonly #toolIds = new Set<string>();
  /** Argument text of every tool use. */
  readonly #inputs: string[] = [];
  #blocks = 0;
  #lastBlock: string | undefined;
  #inputTokens = 0;

  constructor(asked: MessagesAsked, taken: Set<string> = new Set()) {
    this.#machine = new Machine<State, Kind>(MESSAGES_TRANSITIONS, "start", taken);
    this.#asked = asked;
  }

  /** Takes the next frame. Throws `StreamFault` for one that is not allowed here or malformed. */
  take(frame: Frame): void {
    const data = typedData(frame);
    switch (data.type) {
      case "ping":
        exactKeys(data, ["type"]);
        this.#machine.step("ping");
        return;
      case "message_start":
        this.#messageStart(data);
        return;
      case "content_block_start":
        this.#blockStart(data);
        return;
      case "content_block_delta":
        this.#blockDelta(data);
        return;
      case "content_block_stop":
        exactKeys(data, ["type", "index"]);
        this.#ofOpenBlock(data);
        this.#machine.step("block_stop");
        return;
      case "message_delta":
        this.#messageDelta(data);
        return;
      case "message_stop":
        exactKeys(data, ["type"]);
        this.#machine.step("message_stop");
        return;
      case "error":
        this.#error(data);
        return;
      default:
        throw new StreamFault("every event type is one of the format's");
    }
  }

  /** Ends the stream. Throws `StreamFault` if the end is not allowed here. */
  end(): void {
    const { state } = this.#machine;
    must(state === "done" || state === "failed", "a stream ends with message_stop or error");
  }

  #messageStart(data: JsonObject): void {
    exactKeys(data, ["type", "message"]);
    const message = asObject(data.message, "message");
    exactKeys(message, ["id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"]);
    asId(message.id, "msg_");
    asPiece(message.model, "model");
    must(message.type === "message" && message.role === "assistant", "a message of the assistant");
    must(Array.isArray(message.content) && message.content.length === 0, "content is empty at the start");
    must(message.stop_reason === null && message.stop_sequence === null, "nothing has stopped at the start");
    this.#inputTokens = inputTokensOf(asObject(message.usage, "rule 1: usage"));
    this.#machine.step("message_start");
  }

  #blockStart(data: JsonObject): void {
    exactKeys(data, ["type", "index", "content_block"]);
    must(data.index === this.#blocks, "rule 2: indexes are dense");
    const block = asObject(data.content_block, "content_block");
    const { type } = block;
    must(type === "text" || type === "thinking" || type === "tool_use", "the block is of a known kind");
    if (type === "text") {
      exactKeys(block, ["type", "text"]);
      must(block.text === "", "a block begins empty");
    } else if (type === "thinking") {
      must(this.#asked.thinking !== "none", "rule 8: no thinking where it is off");
      exactKeys(block, ["type", "thinking", "signature"]);
      must(block.thinking === "" && block.signature === "", "a block begins empty");
    } else {
      this.#toolUseStart(block);
    }
    this.#blocks += 1;
    this.#lastBlock = type;
    this.#machine.step(STARTS[type]);
  }

  #toolUseStart(block: JsonObject): void {
    exactKeys(block, ["type", "id", "name", "input"]);
    exactKeys(asObject(block.input, "input"), []);
    asPiece(block.name, "name");
    const id = asId(block.id, "toolu_");
    must(!this.#toolIds.has(id), "every tool use has an id of its own");
    this.#toolIds.add(id);
    this.#inputs.push("");
  }

  #blockDelta(data: JsonObject): void {
    exactKeys(data, ["type", "index", "delta"]);
    this.#ofOpenBlock(data);
    const delta = asObject(data.delta, "delta");
    switch (delta.type) {
      case "text_delta":
        exactKeys(delta, ["type", "text"]);
        asPiece(delta.text, "text");
        this.#machine.step("text_delta");
        return;
      case "thinking_delta":
        must(this.#asked.thinking === "shown", "rule 8: no text of a thought that is withheld");
        exactKeys(delta, ["type", "thinking"]);
        asPiece(delta.thinking, "thinking");
        this.#machine.step("thinking_delta");
        return;
      case "signature_delta": {
        exactKeys(delta, ["type", "signature"]);
        asPiece(delta.signature, "signature");
        const withheld = this.#machine.state === "thinking_begun";
        must(!withheld || this.#asked.thinking === "omitted", "a thought that is shown has text");
        this.#machine.step("signature_delta");
        return;
      }
      case "input_json_delta":
        exactKeys(delta, ["type", "partial_json"]);
        this.#inputs.push((this.#inputs.pop() ?? "") + asText(delta.partial_json, "partial_json"));
        this.#machine.step("input_json_delta");
        return;
      default:
        throw new StreamFault("the delta is of a known kind");
    }
  }

  #ofOpenBlock(data: JsonObject): void {
    must(data.index === this.#blocks - 1, "rule 2: one block is open at a time");
  }

  /** Rules 1 and 5; calls to be run have whole input, unless the message was truncated in its last block. */
  #messageDelta(data: JsonObject): void {
    exactKeys(data, ["type", "delta", "usage"]);
    const delta = asObject(data.delta, "delta");
    exactKeys(delta, ["stop_reason", "stop_sequence"]);
    const reason = STOP_REASONS.find((known) => known === delta.stop_reason);
    must(reason !== undefined, "stop_reason is one of the format's");
    must((reason === "stop_sequence") === (typeof delta.stop_sequence === "string"), "stop_sequence names the string");
    must(reason !== "tool_use" || this.#inputs.length > 0, "tool_use needs a tool use");
    const inputTokens = inputTokensOf(asObject(data.usage, "rule 1: usage"));
    must(inputTokens === this.#inputTokens, "the input counters add up to the same prompt at start and end");
    const cut = reason === "max_tokens" || reason === "model_context_window_exceeded" || reason === "refusal";
    const whole = cut && this.#lastBlock === "tool_use" ? this.#inputs.slice(0, -1) : this.#inputs;
    for (const input of whole) must(input === "" || isObjectText(input), "rule 4: the pieces are a JSON object");
    this.#machine.step("message_delta");
  }

  #error(data: JsonObject): void {
    exactKeys(data, ["type", "error", "request_id"]);
    asId(data.request_id, "req_");
    const error = asObject(data.error, "error");
    exactKeys(error, ["type", "message"], ["details"]);
    must(
      /^(?:[a-z]+_){1,2}error$|^request_too_large$/.test(asPiece(error.type, "type")),
      "the error has a type of the format",
    );
    asPiece(error.message, "message");
    this.#machine.step("error");
  }
}

/** The tokens of the prompt: the sum of the three counters. */
function inputTokensOf(usage: JsonObject): number {
  const counters = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
  exactKeys(usage, [...counters, "output_tokens"], ["output_tokens_details"]);
  asCount(usage.output_tokens, "output_tokens");
  return counters.reduce((sum, counter) => sum + asCount(usage[counter], counter), 0);
}
