import type { BlockStarted, Event, Finished, Started } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ApiError } from "../../errors.ts";
import { shownCallId } from "../completion.ts";
import { errorBodyB } from "../error-envelope.ts";
import type { Head, StreamEncoder } from "../format.ts";
import { filled, frame, HOLE, type OpenFrame, openFrame } from "../sse.ts";
import { type Asked, diagnosticsOf, messageHead, signatureOf, stopOf, usageOf } from "./reply.ts";
import type { ReplyCompaction, Stop } from "./reply-schema.ts";

/* Text and thinking open with their first piece, as some clients reject an empty block. */
type State =
  | { readonly at: "start" | "between_blocks" | "before_text" | "before_thinking" | "in_hidden_thinking" | "end" }
  | { readonly at: "in_block"; readonly delta: OpenFrame }
  /** `delta` is undefined where the text is withheld. */
  | { readonly at: "in_thinking"; readonly delta: OpenFrame | undefined; readonly pieces: string[] };

type TypedEvent = { readonly type: string; readonly [field: string]: unknown };

const PING = event({ type: "ping" });

/** Writes the stream of one message. Events come in the order of the contract, which has already been checked. */
export class MessagesEncoder implements StreamEncoder {
  readonly #head: Head;
  readonly #asked: Asked;
  #state: State = { at: "start" };
  /** The index of the open block, or of the next one: hidden blocks leave no gap. */
  #index = 0;
  /** Whether the reason of a cache miss was not known yet at the start. */
  #owesDiagnosis = false;

  constructor(head: Head, asked: Asked) {
    this.#head = head;
    this.#asked = asked;
  }

  next({ kind }: Event): string {
    if (this.#state.at === "end") return "";
    switch (kind?.$case) {
      case "blockDelta":
        return this.#delta(kind.value.text);
      case "started":
        return this.#started(kind.value);
      case "blockStarted":
        return this.#close() + this.#open(kind.value);
      case "blockEnded":
        return this.#close();
      case "finished":
        return this.#close() + this.#finish(kind.value);
      case "progress":
      case undefined:
        return "";
      default:
        return kind satisfies never;
    }
  }

  text(text: string): string {
    return this.#delta(text);
  }

  fail(error: ApiError): string {
    if (this.#state.at === "end") return "";
    this.#state = { at: "end" };
    return event(errorBodyB(error, this.#head.requestId));
  }

  /** Writes a block at once, and the end of the stream. */
  whole(block: ReplyCompaction, stop: Stop, { usage }: Finished): string {
    const { type, ...value } = block;
    const index = this.#index++;
    this.#state = { at: "end" };
    return (
      event({ type: "content_block_start", index, content_block: { type, content: null, encrypted_content: null } }) +
      event({ type: "content_block_delta", index, delta: { type: `${type}_delta`, ...value } }) +
      event({ type: "content_block_stop", index }) +
      this.#end(stop, usage)
    );
  }

  keepAlive(): string {
    return this.#state.at === "end" ? "" : PING;
  }

  #started({ inputTokens, cachedInputTokens = 0 }: Started): string {
    if (this.#state.at !== "start") return "";
    this.#state = { at: "between_blocks" };
    const usage = { inputTokens, cachedInputTokens, cacheWriteTokens: 0, outputTokens: 1, reasoningTokens: 0 };
    const { diagnostics } = diagnosticsOf(this.#head, this.#asked, "at_start");
    this.#owesDiagnosis = diagnostics?.cache_miss_reason === null;
    const unfinished = { content: [], stop_reason: null, stop_sequence: null, usage: usageOf(usage) };
    const message = Object.assign(messageHead(this.#head, this.#asked), unfinished);
    return event({ type: "message_start", message: diagnostics === undefined ? message : { ...message, diagnostics } });
  }

  #open({ block }: BlockStarted): string {
    if (this.#state.at !== "between_blocks") return "";
    switch (block?.$case) {
      case "text":
        this.#state = { at: "before_text" };
        return "";
      case "reasoning":
        this.#state = { at: this.#asked.display === "none" ? "in_hidden_thinking" : "before_thinking" };
        return "";
      case "toolCall": {
        const { callId, name } = block.value;
        this.#state = { at: "in_block", delta: this.#deltaFrame({ type: "input_json_delta", partial_json: HOLE }) };
        return this.#start({ type: "tool_use", id: shownCallId("toolu_", callId, this.#head), name, input: {} });
      }
      case undefined:
        return "";
      default:
        return block satisfies never;
    }
  }

  #delta(text: string): string {
    const state = this.#state;
    switch (state.at) {
      case "in_block":
        return filled(state.delta, text);
      case "in_thinking":
        state.pieces.push(text);
        return state.delta ? filled(state.delta, text) : "";
      case "before_text":
        this.#state = { at: "in_block", delta: this.#deltaFrame({ type: "text_delta", text: HOLE }) };
        return this.#start({ type: "text", text: "" }) + this.#delta(text);
      case "before_thinking": {
        const isShown = this.#asked.display !== "omitted";
        const delta = isShown ? this.#deltaFrame({ type: "thinking_delta", thinking: HOLE }) : undefined;
        this.#state = { at: "in_thinking", delta, pieces: [] };
        return this.#start({ type: "thinking", thinking: "", signature: "" }) + this.#delta(text);
      }
      default:
        return "";
    }
  }

  /** Ends the open block, if any: a block ends once, however often this is called. */
  #close(): string {
    const state = this.#state;
    if (state.at === "start" || state.at === "end") return "";
    this.#state = { at: "between_blocks" };
    if (state.at !== "in_block" && state.at !== "in_thinking") return "";
    const index = this.#index++;
    const stop = event({ type: "content_block_stop", index });
    if (state.at === "in_block") return stop;
    const signature = signatureOf(state.pieces.join(""), this.#head, this.#asked.display);
    return event({ type: "content_block_delta", index, delta: { type: "signature_delta", signature } }) + stop;
  }

  #start(block: object): string {
    return event({ type: "content_block_start", index: this.#index, content_block: block });
  }

  #deltaFrame(delta: object): OpenFrame {
    return openFrame("content_block_delta", { type: "content_block_delta", index: this.#index, delta });
  }

  #finish(finished: Finished): string {
    this.#state = { at: "end" };
    return this.#end(stopOf(finished), finished.usage);
  }

  #end(delta: Stop, usage: Finished["usage"]): string {
    const diagnosed = this.#owesDiagnosis ? diagnosticsOf(this.#head, this.#asked, "at_end") : {};
    return (
      event({ type: "message_delta", delta, usage: usageOf(usage), ...diagnosed }) + event({ type: "message_stop" })
    );
  }
}

/** Writes one event. SDKs dispatch on the `event:` line, others on `type`: the two are always the same. */
function event(data: TypedEvent): string {
  return frame(data.type, JSON.stringify(data));
}
