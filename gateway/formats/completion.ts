import { createHash } from "node:crypto";
import type { Event, Finished, Sampling, TokenLogprob } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { engineLost } from "../errors.ts";
import type { Head } from "./format.ts";

/**
 * One finished block of an answer: visible text, with the log probabilities of its tokens if requested; reasoning; or a
 * call, whose `argumentsJson` is the model's own text, truncated where `complete` is false.
 */
export type CompletedBlock = {
  readonly index: number;
  /** Whether the block is whole; false if generation stopped inside it. */
  readonly complete: boolean;
} & (
  | { readonly kind: "text"; readonly text: string; readonly logprobs: readonly TokenLogprob[] }
  | { readonly kind: "reasoning"; readonly text: string }
  | { readonly kind: "toolCall"; readonly callId: string; readonly name: string; readonly argumentsJson: string }
);

/** A whole answer: the fold of its event stream. */
export type Completion = {
  readonly blocks: readonly CompletedBlock[];
  /** The sampling parameters used; undefined if the engine did not report them. */
  readonly sampling: Sampling | undefined;
  /** The reason of the end, and the usage. */
  readonly finished: Finished;
};

type OpenBlock = {
  readonly index: number;
  readonly head: { kind: "text" } | { kind: "reasoning" } | { kind: "toolCall"; callId: string; name: string };
  readonly pieces: string[];
  readonly logprobs: TokenLogprob[];
};

/** Folds canonical events into a whole answer. The order of events has already been checked. */
export class CompletionFold {
  readonly #blocks: CompletedBlock[] = [];
  #open: OpenBlock | undefined;
  #sampling: Sampling | undefined;
  #finished: Finished | undefined;

  next(event: Event): void {
    const kind = event.kind;
    switch (kind?.$case) {
      case "started":
        this.#sampling = kind.value.sampling;
        return;
      case "blockStarted": {
        const { index, block } = kind.value;
        if (!block) return;
        const head =
          block.$case === "toolCall"
            ? { kind: block.$case, callId: block.value.callId, name: block.value.name }
            : { kind: block.$case };
        this.#open = { index, head, pieces: [], logprobs: [] };
        return;
      }
      case "blockDelta":
        this.#open?.pieces.push(kind.value.text);
        this.#open?.logprobs.push(...kind.value.logprobs);
        return;
      case "blockEnded":
        this.#close(kind.value.complete);
        return;
      case "finished":
        this.#finished = kind.value;
        return;
      default:
        return;
    }
  }

  /** Adds a delta without log probabilities to the open block. */
  text(text: string): void {
    this.#open?.pieces.push(text);
  }

  /** Returns the whole answer. Throws `ApiError` when the stream ended before `finished`. */
  result(): Completion {
    if (!this.#finished) throw engineLost("upstream_ended_early");
    return { blocks: this.#blocks, sampling: this.#sampling, finished: this.#finished };
  }

  #close(complete: boolean): void {
    const open = this.#open;
    if (!open) return;
    this.#open = undefined;
    const text = open.pieces.join("");
    const { index, head } = open;
    if (head.kind === "toolCall") this.#blocks.push({ ...head, index, complete, argumentsJson: text });
    else if (head.kind === "reasoning") this.#blocks.push({ kind: "reasoning", index, complete, text });
    else this.#blocks.push({ kind: "text", index, complete, text, logprobs: open.logprobs });
  }
}

/** Joins all text blocks: the content in formats without blocks. */
export function textOf(completion: Completion): string {
  return completion.blocks.map((block) => (block.kind === "text" ? block.text : "")).join("");
}

export function reasoningOf(completion: Completion): string {
  return completion.blocks.map((block) => (block.kind === "reasoning" ? block.text : "")).join("");
}

/** An id that only needs the format's prefix: an engine's own prefix is replaced. */
const PLAIN = /^(?:call_|toolu_|chatcmpl-tool-)?([A-Za-z0-9_-]{1,58})$/;

/**
 * Returns the call id shown to the caller: `call_…` or `toolu_…`, of letters, digits, `_` and `-`, at most 64
 * characters. Engines create ids in their own forms, and some restart them with each answer; such an id is made unique
 * across answers. The mapping is not stored: a node rewrites the ids of a conversation's calls to those that its
 * template wants.
 */
export function shownCallId(prefix: "call_" | "toolu_", callId: string, { replyId }: Pick<Head, "replyId">): string {
  const plain = PLAIN.exec(callId)?.[1];
  if (plain !== undefined) return `${prefix}${plain}`;
  const digest = createHash("sha256")
    .update(JSON.stringify([replyId, callId]))
    .digest("hex");
  return `${prefix}${digest.slice(0, 24)}`;
}
