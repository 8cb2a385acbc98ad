import { hash } from "node:crypto";
import type {
  BlockStarted,
  Event,
  Finished,
  Sampling,
  TokenLogprob,
} from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { engineLost } from "../errors.ts";

/** One finished block of an answer. `argumentsJson` is the model's own text, cut or broken where `complete` is false. */
export type CompletedBlock = {
  readonly index: number;
  /** False if generation stopped inside the block. */
  readonly complete: boolean;
} & (
  | { readonly kind: "text"; readonly text: string; readonly logprobs: readonly TokenLogprob[] }
  | { readonly kind: "reasoning"; readonly text: string }
  | { readonly kind: "toolCall"; readonly callId: string; readonly name: string; readonly argumentsJson: string }
);

/** A whole answer: the fold of its event stream. */
export type Completion = {
  readonly blocks: readonly CompletedBlock[];
  /** Undefined if the engine did not report it. */
  readonly sampling: Sampling | undefined;
  readonly finished: Finished;
};

/** A block whose end has not arrived. */
export type OpenBlock = {
  readonly index: number;
  readonly block: NonNullable<BlockStarted["block"]>;
  readonly pieces: string[];
  readonly logprobs: TokenLogprob[];
};

/** Folds canonical events into a whole answer. The order of events has already been checked. */
export class CompletionFold {
  readonly #blocks: CompletedBlock[] = [];
  #open: OpenBlock | undefined;
  #sampling: Sampling | undefined;
  #finished: Finished | undefined;

  next({ kind }: Event): void {
    switch (kind?.$case) {
      case "started":
        this.#sampling = kind.value.sampling;
        break;
      case "blockStarted": {
        const { index, block } = kind.value;
        if (block) this.#open = { index, block, pieces: [], logprobs: [] };
        break;
      }
      case "blockDelta":
        this.#open?.pieces.push(kind.value.text);
        this.#open?.logprobs.push(...kind.value.logprobs);
        break;
      case "blockEnded":
        if (this.#open) this.#blocks.push(completed(this.#open, kind.value.complete));
        this.#open = undefined;
        break;
      case "finished":
        this.#finished = kind.value;
    }
  }

  text(text: string): void {
    this.#open?.pieces.push(text);
  }

  /** Returns the whole answer. Throws `ApiError` when the stream ended before `finished`. */
  result(): Completion {
    if (!this.#finished) throw engineLost("upstream_ended_early");
    return { blocks: this.#blocks, sampling: this.#sampling, finished: this.#finished };
  }
}

export function completed({ index, block, pieces, logprobs }: OpenBlock, complete: boolean): CompletedBlock {
  const text = pieces.join("");
  switch (block.$case) {
    case "toolCall":
      return { kind: "toolCall", ...block.value, index, complete, argumentsJson: text };
    case "reasoning":
      return { kind: "reasoning", index, complete, text };
    case "text":
      return { kind: "text", index, complete, text, logprobs };
  }
}

export function textOf({ blocks }: Completion, kind: "text" | "reasoning" = "text"): string {
  return blocks.map((block) => (block.kind === kind ? block.text : "")).join("");
}

/** An id whose engine's own prefix, if any, is replaced by the format's. */
const PLAIN = /^(?:call_|toolu_|chatcmpl-tool-)?([A-Za-z0-9_-]{1,58})$/;

/**
 * Returns the call id shown to the caller, of letters, digits, `_` and `-`, at most 64 characters. Engines create ids in
 * their own forms, and some restart them with each answer; such an id is made unique across answers. The mapping is not
 * stored: a node rewrites the ids of a conversation's calls to those that its template wants.
 */
export function shownCallId(
  prefix: "call_" | "toolu_",
  callId: string,
  { replyId }: { readonly replyId: string },
): string {
  const plain = PLAIN.exec(callId)?.[1];
  if (plain !== undefined) return `${prefix}${plain}`;
  return `${prefix}${hash("sha256", JSON.stringify([replyId, callId])).slice(0, 24)}`;
}
