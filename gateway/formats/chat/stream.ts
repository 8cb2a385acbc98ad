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

type Position =
  | { readonly at: "start" | "between_blocks" | "in_reasoning" | "end" }
  /** `tool_call_begun`: the head of the call was sent, but none of its arguments. */
  | { readonly at: "in_text" | "tool_call_begun" | "in_tool_call"; readonly open: OpenFrame };

/** Writes canonical events as chunks of Format A, by the numbered rules of "Stream of chat" in formats/README.md. */
export class ChatEncoder implements StreamEncoder {
  readonly #options: ReplyOptions;
  /** The fields that are the same on every chunk, except the id, which comes first. */
  readonly #base: object;
  readonly #text: OpenFrame;
  readonly #head: Head;
  readonly #reasoning: OpenFrame;
  #position: Position = { at: "start" };
  /** The calls begun: the next call's `index`, which counts calls, not blocks. */
  #toolCalls = 0;

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
        return kind satisfies never;
    }
  }

  text(text: string): string {
    return this.#delta(text, NO_LOGPROBS);
  }

  fail(error: ApiError): string {
    if (this.#position.at === "end") return "";
    this.#position = { at: "end" };
    return frame(undefined, JSON.stringify({ error: inStreamError(error) })) + DONE;
  }

  keepAlive(): string {
    return this.#position.at === "end" ? "" : COMMENT_KEEP_ALIVE;
  }

  #delta(text: string, logprobs: readonly TokenLogprob[]): string {
    const position = this.#position;
    switch (position.at) {
      case "in_text":
        return this.#options.logprobs && logprobs.length > 0
          ? this.#frame(this.#chunk({ content: text }, null, chatLogprobs(logprobs)))
          : filled(position.open, text);
      case "tool_call_begun":
        this.#position = { at: "in_tool_call", open: position.open };
        return filled(position.open, text);
      case "in_tool_call":
        return filled(position.open, text);
      case "in_reasoning":
        return filled(this.#reasoning, text);
      default:
        return "";
    }
  }

  /** The first chunk carries the role (rule 2). */
  #started(): string {
    if (this.#position.at !== "start") return "";
    this.#position = { at: "between_blocks" };
    return this.#frame(this.#chunk({ role: "assistant", content: "" }));
  }

  #blockStarted({ block }: BlockStarted): string {
    if (this.#position.at !== "between_blocks") return "";
    switch (block?.$case) {
      case "text":
        this.#position = { at: "in_text", open: this.#text };
        return "";
      case "reasoning":
        this.#position = { at: "in_reasoning" };
        return "";
      case "toolCall": {
        const { callId, name } = block.value;
        const index = this.#toolCalls++;
        const open = openFrame(undefined, this.#chunk({ tool_calls: [{ index, function: { arguments: HOLE } }] }));
        this.#position = { at: "tool_call_begun", open };
        const id = shownCallId("call_", callId, this.#head);
        // Rule 4: id, type and name in the first fragment only.
        const first = { index, id, type: "function", function: { name, arguments: "" } };
        return this.#frame(this.#chunk({ tool_calls: [first] }));
      }
      case undefined: // A block kind of a newer contract: its deltas are skipped.
        return "";
      default:
        return block satisfies never;
    }
  }

  #blockEnded(complete: boolean): string {
    const position = this.#position;
    if (position.at === "start" || position.at === "end" || position.at === "between_blocks") return "";
    this.#position = { at: "between_blocks" };
    // A whole call without arguments: clients parse the text, and "" is not JSON.
    return position.at === "tool_call_begun" && complete ? filled(position.open, "{}") : "";
  }

  /** Rules 5 and 6: one chunk ends the choice, then the usage if requested, then the marker. */
  #finished({ reason, usage }: Finished): string {
    if (this.#position.at === "end") return "";
    this.#position = { at: "end" };
    const end = this.#frame(this.#chunk({}, finishReason(reason)));
    if (!this.#options.includeUsage) return end + DONE;
    const last = { id: completionId(this.#head), ...this.#base, choices: [], usage: chatUsage(usage) };
    return end + this.#frame(last) + DONE;
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

/** A lost engine is `server_error`: without an HTTP status, a code of its own would explain nothing. */
function inStreamError(error: ApiError) {
  const object = errorObjectA(error);
  const lost = error.code === "engine_unavailable" || error.code === "upstream_error";
  return lost ? { ...object, code: "server_error" } : object;
}
