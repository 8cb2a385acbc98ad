import type { BlockStarted, Event, Finished, Started } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ApiError } from "../../errors.ts";
import { shownCallId } from "../completion.ts";
import { errorBodyB } from "../error-envelope.ts";
import type { Head, StreamEncoder } from "../format.ts";
import { filled, frame, HOLE, type OpenFrame, openFrame } from "../sse.ts";
import { type Asked, messageHead, signatureOf, stopOf, usageOf } from "./reply.ts";

/*
 * The block indices are the stream's own: hidden blocks leave no gap. Text and thinking open with their first piece, as
 * some clients reject an empty block.
 */
type State =
  | { readonly at: "start" }
  | { readonly at: "between_blocks"; readonly nextIndex: number }
  | { readonly at: "before_text"; readonly nextIndex: number }
  | { readonly at: "before_thinking"; readonly nextIndex: number }
  | { readonly at: "in_hidden_thinking"; readonly nextIndex: number }
  | { readonly at: "in_text"; readonly index: number; readonly delta: OpenFrame }
  | { readonly at: "in_thinking"; readonly index: number; readonly delta: OpenFrame; readonly pieces: string[] }
  | { readonly at: "in_omitted_thinking"; readonly index: number; readonly pieces: string[] }
  | { readonly at: "in_tool_use"; readonly index: number; readonly delta: OpenFrame }
  | { readonly at: "end" };

type TypedEvent = { readonly type: string; readonly [field: string]: unknown };

const PING = event({ type: "ping" });

/** Makes the encoder of one message. Events come in the order of the contract, which has already been checked. */
export function messagesEncoder(head: Head, asked: Asked): StreamEncoder {
  return new MessagesEncoder(head, asked);
}

class MessagesEncoder implements StreamEncoder {
  readonly #head: Head;
  readonly #asked: Asked;
  #state: State = { at: "start" };

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

  keepAlive(): string {
    return this.#state.at === "end" ? "" : PING;
  }

  #started({ inputTokens, cachedInputTokens = 0 }: Started): string {
    if (this.#state.at !== "start") return "";
    this.#state = { at: "between_blocks", nextIndex: 0 };
    const usage = { inputTokens, cachedInputTokens, cacheWriteTokens: 0, outputTokens: 1, reasoningTokens: 0 };
    const unfinished = { content: [], stop_reason: null, stop_sequence: null, usage: usageOf(usage) };
    return event({ type: "message_start", message: Object.assign(messageHead(this.#head, this.#asked), unfinished) });
  }

  #open({ block }: BlockStarted): string {
    const state = this.#state;
    if (state.at !== "between_blocks") return "";
    const { nextIndex } = state;
    switch (block?.$case) {
      case "text":
        this.#state = { at: "before_text", nextIndex };
        return "";
      case "reasoning":
        this.#state = { at: this.#asked.display === "none" ? "in_hidden_thinking" : "before_thinking", nextIndex };
        return "";
      case "toolCall": {
        const { callId, name } = block.value;
        this.#state = { at: "in_tool_use", index: nextIndex, delta: inputDelta(nextIndex) };
        return blockStart(nextIndex, {
          type: "tool_use",
          id: shownCallId("toolu_", callId, this.#head),
          name,
          input: {},
        });
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
      case "in_text":
      case "in_tool_use":
        return filled(state.delta, text);
      case "in_thinking":
        state.pieces.push(text);
        return filled(state.delta, text);
      case "in_omitted_thinking":
        state.pieces.push(text);
        return "";
      case "before_text": {
        const index = state.nextIndex;
        const delta = textDelta(index);
        this.#state = { at: "in_text", index, delta };
        return blockStart(index, { type: "text", text: "" }) + filled(delta, text);
      }
      case "before_thinking": {
        const index = state.nextIndex;
        const start = blockStart(index, { type: "thinking", thinking: "", signature: "" });
        if (this.#asked.display === "omitted") {
          this.#state = { at: "in_omitted_thinking", index, pieces: [text] };
          return start;
        }
        const delta = thinkingDelta(index);
        this.#state = { at: "in_thinking", index, delta, pieces: [text] };
        return start + filled(delta, text);
      }
      case "in_hidden_thinking":
      case "start":
      case "between_blocks":
      case "end":
        return "";
      default:
        return state satisfies never;
    }
  }

  /** Ends the open block, if any: a block ends once, however often this is called. */
  #close(): string {
    const state = this.#state;
    switch (state.at) {
      case "in_thinking":
      case "in_omitted_thinking": {
        const { index } = state;
        const signature = signatureOf(state.pieces.join(""), this.#head, this.#asked.display);
        this.#state = { at: "between_blocks", nextIndex: index + 1 };
        return (
          event({ type: "content_block_delta", index, delta: { type: "signature_delta", signature } }) +
          blockStop(index)
        );
      }
      case "in_text":
      case "in_tool_use":
        this.#state = { at: "between_blocks", nextIndex: state.index + 1 };
        return blockStop(state.index);
      case "before_text":
      case "before_thinking":
      case "in_hidden_thinking":
        this.#state = { at: "between_blocks", nextIndex: state.nextIndex };
        return "";
      case "start":
      case "between_blocks":
      case "end":
        return "";
      default:
        return state satisfies never;
    }
  }

  #finish(finished: Finished): string {
    this.#state = { at: "end" };
    return (
      event({ type: "message_delta", delta: stopOf(finished), usage: usageOf(finished.usage) }) +
      event({ type: "message_stop" })
    );
  }
}

/** Writes one event. SDKs dispatch on the `event:` line, others on `type`: the two are always the same. */
function event(data: TypedEvent): string {
  return frame(data.type, JSON.stringify(data));
}

function blockStart(index: number, block: object): string {
  return event({ type: "content_block_start", index, content_block: block });
}

function blockStop(index: number): string {
  return event({ type: "content_block_stop", index });
}

function deltaFrame(index: number, delta: object): OpenFrame {
  return openFrame("content_block_delta", { type: "content_block_delta", index, delta });
}

function textDelta(index: number): OpenFrame {
  return deltaFrame(index, { type: "text_delta", text: HOLE });
}

function thinkingDelta(index: number): OpenFrame {
  return deltaFrame(index, { type: "thinking_delta", thinking: HOLE });
}

function inputDelta(index: number): OpenFrame {
  return deltaFrame(index, { type: "input_json_delta", partial_json: HOLE });
}
