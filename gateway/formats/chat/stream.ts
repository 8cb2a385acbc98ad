import type {
  BlockStarted,
  Event,
  Finished,
  TokenLogprob,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ApiError } from "../../errors.ts";
import { shownCallId } from "../completion.ts";
import { errorObjectA } from "../error-envelope.ts";
import type { Head, StreamEncoder } from "../format.ts";
import { COMMENT_KEEP_ALIVE, DONE, filled, frame, HOLE, type OpenFrame, openFrame } from "../sse.ts";
import { chatLogprobs, chatUsage, completionId, finishReason, type ReplyOptions } from "./reply.ts";
import type { ChatFinishReason } from "./reply-schema.ts";

const NO_LOGPROBS: readonly TokenLogprob[] = [];

/**
 * Position in the stream. `toolCalls` counts the calls begun: it is the next call's `index`, which counts calls, not
 * blocks.
 */
type Position =
  | { readonly at: "start" }
  | { readonly at: "between_blocks"; readonly toolCalls: number }
  | { readonly at: "in_text"; readonly open: OpenFrame; readonly toolCalls: number }
  | { readonly at: "in_reasoning"; readonly toolCalls: number }
  /** A call whose head was sent, but none of its arguments. */
  | { readonly at: "tool_call_begun"; readonly open: OpenFrame; readonly toolCalls: number }
  | { readonly at: "in_tool_call"; readonly open: OpenFrame; readonly toolCalls: number }
  | { readonly at: "end" };

/** Writes canonical events as chunks of Format A, by the numbered rules of "Stream of chat" in formats/README.md. */
export class ChatEncoder implements StreamEncoder {
  readonly #options: ReplyOptions;
  /** The fields that are the same on every chunk, except the id, which comes first. */
  readonly #base: object;
  readonly #text: OpenFrame;
  readonly #head: Head;
  readonly #reasoning: OpenFrame;
  #position: Position = { at: "start" };

  constructor(head: Head, options: ReplyOptions) {
    this.#head = head;
    this.#options = options;
    // Rule 1: the same on every chunk.
    this.#base = {
      object: "chat.completion.chunk",
      created: head.createdSeconds,
      model: options.model,
      ...(options.echoServiceTier && { service_tier: "default" }),
    };
    this.#text = openFrame(undefined, this.#chunk({ content: HOLE }));
    this.#reasoning = openFrame(undefined, this.#chunk({ reasoning_content: HOLE }));
  }

  /** Returns the frames of an event; "" for one that this format does not show, and after the end. */
  next(event: Event): string {
    const kind = event.kind;
    switch (kind?.$case) {
      case "blockDelta":
        return this.#delta(kind.value.text, kind.value.logprobs);
      case "started":
        return this.#started();
      case "blockStarted":
        return this.#blockStarted(kind.value);
      case "blockEnded":
        return this.#blockEnded(kind.value.complete);
      case "finished":
        return this.#finished(kind.value);
      case "progress":
      case undefined: // An event kind of a newer contract.
        return "";
      default:
        kind satisfies never;
        return "";
    }
  }

  /** Returns the frame of a delta without log probabilities; "" where the block is not shown. */
  text(text: string): string {
    return this.#delta(text, NO_LOGPROBS);
  }

  /** Returns a frame with the error and the end marker, which end the stream; "" after the end. */
  fail(error: ApiError): string {
    if (this.#position.at === "end") return "";
    this.#position = { at: "end" };
    return frame(undefined, JSON.stringify({ error: inStreamError(error) })) + DONE;
  }

  /** Returns a keep-alive, a comment line, which clients of this format skip; "" after the end. */
  keepAlive(): string {
    return this.#position.at === "end" ? "" : COMMENT_KEEP_ALIVE;
  }

  #delta(text: string, logprobs: readonly TokenLogprob[]): string {
    const position = this.#position;
    switch (position.at) {
      case "in_text":
        return this.#options.logprobs && logprobs.length > 0
          ? this.#textWithLogprobs(text, logprobs)
          : filled(position.open, text);
      case "tool_call_begun":
        this.#position = { ...position, at: "in_tool_call" };
        return filled(position.open, text);
      case "in_tool_call":
        return filled(position.open, text);
      case "in_reasoning":
        return filled(this.#reasoning, text);
      default:
        return "";
    }
  }

  /**
   * Returns the first chunk, which carries the role ("Stream of chat" in formats/README.md, rule 2); "" once it was
   * sent.
   */
  #started(): string {
    if (this.#position.at !== "start") return "";
    this.#position = { at: "between_blocks", toolCalls: 0 };
    return this.#frame(this.#chunk({ role: "assistant", content: "" }));
  }

  #blockStarted({ block }: BlockStarted): string {
    if (this.#position.at !== "between_blocks") return "";
    const { toolCalls } = this.#position;
    switch (block?.$case) {
      case "text":
        this.#position = { at: "in_text", open: this.#text, toolCalls };
        return "";
      case "reasoning":
        this.#position = { at: "in_reasoning", toolCalls };
        return "";
      case "toolCall": {
        const { callId, name } = block.value;
        const open = openFrame(undefined, this.#chunk(argumentsDelta(toolCalls, HOLE)));
        this.#position = { at: "tool_call_begun", open, toolCalls: toolCalls + 1 };
        const id = shownCallId("call_", callId, this.#head);
        // Rule 4: id, type and name in the first fragment only.
        const first = { index: toolCalls, id, type: "function", function: { name, arguments: "" } };
        return this.#frame(this.#chunk({ tool_calls: [first] }));
      }
      case undefined: // A block kind of a newer contract: its deltas are skipped.
        return "";
      default:
        block satisfies never;
        return "";
    }
  }

  #blockEnded(complete: boolean): string {
    const position = this.#position;
    if (position.at === "start" || position.at === "end" || position.at === "between_blocks") return "";
    this.#position = { at: "between_blocks", toolCalls: position.toolCalls };
    // A whole call without arguments: clients parse the text, and "" is not JSON.
    return position.at === "tool_call_begun" && complete ? filled(position.open, "{}") : "";
  }

  /**
   * Returns the end of the stream ("Stream of chat" in formats/README.md, rules 5 and 6): one chunk ends the choice,
   * then the usage if requested, then the marker.
   */
  #finished({ reason, usage }: Finished): string {
    if (this.#position.at === "end") return "";
    this.#position = { at: "end" };
    const end = this.#frame(this.#chunk({}, finishReason(reason)));
    if (!this.#options.includeUsage) return end + DONE;
    const last = { id: completionId(this.#head), ...this.#base, choices: [], usage: chatUsage(usage) };
    return end + this.#frame(last) + DONE;
  }

  #textWithLogprobs(text: string, logprobs: readonly TokenLogprob[]): string {
    return this.#frame(this.#chunk({ content: text }, null, chatLogprobs(logprobs)));
  }

  #chunk(delta: object, finish: ChatFinishReason | null = null, logprobs: object | null = null): object {
    return {
      id: completionId(this.#head),
      ...this.#base,
      choices: [{ index: 0, delta, logprobs, finish_reason: finish }],
      ...(this.#options.includeUsage && { usage: null }),
    };
  }

  #frame(chunk: object): string {
    return frame(undefined, JSON.stringify(chunk));
  }
}

function argumentsDelta(index: number, text: string): object {
  return { tool_calls: [{ index, function: { arguments: text } }] };
}

/**
 * Makes the error of a broken stream. A lost engine is `server_error` here, and the message has the details: without an
 * HTTP status, a code of its own would explain nothing.
 */
function inStreamError(error: ApiError) {
  const object = errorObjectA(error);
  const lost = error.code === "engine_unavailable" || error.code === "upstream_error";
  return lost ? { ...object, code: "server_error" } : object;
}
