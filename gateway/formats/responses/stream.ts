import type {
  BlockStarted,
  Event,
  Finished,
  TokenLogprob,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ApiError, ErrorCode } from "../../errors.ts";
import { completed, type OpenBlock } from "../completion.ts";
import { messageOf } from "../error-envelope.ts";
import type { Head, StreamEncoder } from "../format.ts";
import { frame } from "../sse.ts";
import { SummaryStream } from "../summary.ts";
import { compactionItem } from "./compaction.ts";
import {
  finishedItem,
  type ItemEvent,
  type ItemFrames,
  itemFrames,
  type ReplyView,
  toLogprobs,
} from "./output-item.ts";
import type { Echo, Failure, OutputItem } from "./reply-schema.ts";
import { diagnosticsOf, type FinalOutcome, finishedOutcome, responseObject, withSampling } from "./response-object.ts";

const NO_LOGPROBS: readonly TokenLogprob[] = [];

/** An item that is announced and not yet closed. */
type OpenItem = OpenBlock & { readonly frames: ItemFrames };

type State =
  | { readonly at: "start" }
  | { readonly at: "between_items" }
  /** A reasoning block without text so far: an item without text is never announced. */
  | { readonly at: "before_reasoning"; readonly index: number; readonly block: OpenBlock["block"] }
  | { readonly at: "in_item"; readonly item: OpenItem }
  | { readonly at: "in_hidden_block" }
  | { readonly at: "end" };

/** Every other code is a `server_error`, which Codex retries; it ends its user's turn at `server_is_overloaded`. */
const FAILURE_CODES: Partial<Record<ErrorCode, Failure["code"]>> = {
  context_length_exceeded: "context_length_exceeded",
  rate_limit_exceeded: "rate_limit_exceeded",
};

/** The multiple of bytes to which the text of a delta is padded: it gives most pieces of text the same size. */
const OBFUSCATION_BYTES = 32;

/** Writes the event stream of a response ("Events of responses" in formats/README.md). */
export class ResponsesStream implements StreamEncoder {
  readonly #head: Head;
  #echo: Echo;
  readonly #view: ReplyView;
  /** The source of paddings: the random id of the reply, repeated. */
  readonly #padding: string;
  /** The items announced as done: the `output` of the final object. */
  readonly #output: OutputItem[] = [];
  #state: State = { at: "start" };
  #sequenceNumber = 0;

  constructor(head: Head, echo: Echo, view: ReplyView) {
    this.#head = head;
    this.#echo = echo;
    this.#view = view;
    this.#padding = view.obfuscate ? head.replyId.repeat(Math.ceil(OBFUSCATION_BYTES / head.replyId.length)) : "";
  }

  /** The items that were announced as done. */
  get output(): readonly OutputItem[] {
    return this.#output;
  }

  next(event: Event): string {
    const kind = event.kind;
    switch (kind?.$case) {
      case "blockDelta":
        return this.#delta(kind.value.text, kind.value.logprobs);
      case "started":
        this.#echo = withSampling(this.#echo, kind.value.sampling);
        return this.#begin();
      case "blockStarted":
        return this.#begin() + this.#open(kind.value);
      case "blockEnded":
        return this.#close(kind.value.complete);
      case "finished":
        return this.#begin() + this.#finish(kind.value);
      case "progress":
      case undefined:
        return "";
      default:
        return kind satisfies never;
    }
  }

  text(text: string): string {
    return this.#delta(text, NO_LOGPROBS);
  }

  fail(error: ApiError): string {
    if (this.#state.at === "end") return "";
    let begun = this.#begin();
    const state = this.#state;
    if (state.at === "in_item") begun += this.#held(state.item, false);
    // The item that was open is in the final object, but never announced as done.
    const partial =
      state.at === "in_item" && finishedItem(this.#head, this.#output.length, completed(state.item, false), this.#view);
    const code = FAILURE_CODES[error.code] ?? "server_error";
    return (
      begun +
      this.#end({
        status: "failed",
        output: partial ? [...this.#output, partial] : this.#output,
        error: { code, message: messageOf(error, "a") },
      })
    );
  }

  /** Returns a keep-alive: an event and not a comment, as some clients count only events. */
  keepAlive(): string {
    if (this.#state.at === "end") return "";
    // SDKs refuse any event ahead of `response.created`.
    return this.#begin() + this.#frame({ type: "keepalive", fields: {} });
  }

  complete(item: OutputItem, { usage }: Finished): string {
    if (this.#state.at === "end") return "";
    const fields = { output_index: 0, item };
    const completedAtSeconds = this.#head.nowSeconds();
    return (
      this.#begin() +
      this.#frame({ type: "response.output_item.added", fields }) +
      this.#frame({ type: "response.output_item.done", fields }) +
      this.#end({ status: "completed", output: [item], usage, completedAtSeconds })
    );
  }

  #begin(): string {
    if (this.#state.at !== "start") return "";
    this.#state = { at: "between_items" };
    const response = responseObject(this.#head, this.#echo, { status: "in_progress" });
    return (
      this.#frame({ type: "response.created", fields: { response } }) +
      this.#frame({ type: "response.in_progress", fields: { response } })
    );
  }

  #open({ index, block }: BlockStarted): string {
    if (this.#state.at !== "between_items" || !block) return "";
    if (block.$case !== "reasoning") return this.#announce(index, block);
    this.#state =
      this.#view.reasoning === "none" ? { at: "in_hidden_block" } : { at: "before_reasoning", index, block };
    return "";
  }

  #announce(index: number, block: OpenBlock["block"]): string {
    const frames = itemFrames(this.#head, this.#output.length, block, this.#view);
    this.#state = { at: "in_item", item: { block, index, frames, pieces: [], logprobs: [] } };
    return this.#frames(frames.opening);
  }

  #delta(text: string, logprobs: readonly TokenLogprob[]): string {
    const state = this.#state;
    switch (state.at) {
      case "in_item":
        return this.#itemDelta(state.item, text, logprobs);
      case "before_reasoning":
        return this.#announce(state.index, state.block) + this.#delta(text, logprobs);
      default:
        return "";
    }
  }

  #itemDelta(item: OpenItem, piece: string, logprobs: readonly TokenLogprob[]): string {
    item.pieces.push(piece);
    const { shows } = item.frames;
    const text = shows === "pieces" ? piece : shows === "nothing" ? "" : shows.push(piece);
    if (shows !== "pieces" && text === "") return "";
    if (this.#view.logprobs && item.block.$case === "text") {
      item.logprobs.push(...logprobs);
      return this.#deltaFrame(item, text, { logprobs: toLogprobs(logprobs) });
    }
    const { before, between, after } = item.frames.delta;
    const json = JSON.stringify(text);
    if (!this.#view.obfuscate) return before + json + between + this.#sequenceNumber++ + after;
    return `${before}${json},"obfuscation":"${this.#obfuscation(json)}"${between}${this.#sequenceNumber++}${after}`;
  }

  #deltaFrame({ frames }: OpenItem, delta: string, more: object = {}): string {
    const padding = this.#view.obfuscate ? { obfuscation: this.#obfuscation(JSON.stringify(delta)) } : {};
    return this.#frame({ type: frames.deltaType, fields: { ...frames.place, delta, ...more, ...padding } });
  }

  /** Returns the padding of a delta whose text is `json` as JSON: 1 to 32 characters of one byte. */
  #obfuscation(json: string): string {
    return this.#padding.slice(0, OBFUSCATION_BYTES - (Buffer.byteLength(json) % OBFUSCATION_BYTES));
  }

  #close(complete: boolean): string {
    const state = this.#state;
    if (state.at === "in_hidden_block" || state.at === "before_reasoning") this.#state = { at: "between_items" };
    if (state.at !== "in_item") return "";
    const item = finishedItem(this.#head, this.#output.length, completed(state.item, complete), this.#view);
    this.#state = { at: "between_items" };
    if (!item) return "";
    this.#output.push(item);
    // A call without text still needs its arguments as a delta: some clients only read deltas.
    const missing = item.type === "function_call" && state.item.pieces.join("") === "" ? item.arguments : "";
    const filling = missing ? this.#deltaFrame(state.item, missing) : this.#held(state.item, complete);
    return filling + this.#frames(state.item.frames.closing(item));
  }

  /** Returns the delta with the text that the item has held back; the item ends. */
  #held(item: OpenItem, complete: boolean): string {
    const { shows } = item.frames;
    const text = typeof shows === "string" ? "" : shows.end(complete);
    return text ? this.#deltaFrame(item, text) : "";
  }

  #finish(finished: Finished): string {
    if (this.#state.at === "end") return "";
    const closed = this.#close(false);
    return closed + this.#end(finishedOutcome(finished, this.#output, this.#head.nowSeconds()));
  }

  #end(outcome: FinalOutcome): string {
    this.#state = { at: "end" };
    const response = {
      ...responseObject(this.#head, this.#echo, outcome),
      ...(outcome.status !== "failed" && diagnosticsOf(this.#head, this.#view)),
    };
    return this.#frame({ type: `response.${outcome.status}`, fields: { response } });
  }

  #frames(events: readonly ItemEvent[]): string {
    return events.map((event) => this.#frame(event)).join("");
  }

  #frame({ type, fields }: ItemEvent): string {
    return frame(type, JSON.stringify({ type, ...fields, sequence_number: this.#sequenceNumber++ }));
  }
}

/** The stream of a response that compacts its conversation: one whole item. */
export function compactionStream(head: Head, stream: ResponsesStream): StreamEncoder {
  return new SummaryStream(stream, (completion) =>
    stream.complete(compactionItem(head, completion), completion.finished),
  );
}
