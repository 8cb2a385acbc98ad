import type { BlockStarted, Event, Started } from "../../../proto/gen/svc/inference/v1/inference_service.ts";

/** The odd factors of the two halves of a digest: that of FNV-1a, and the golden ratio in 32 bits. */
const FACTOR_A = 0x0100_0193;
const FACTOR_B = 0x9e37_79b1;
const OFFSET_A = 0x811c_9dc5 | 0;

/** A 64-bit digest of a text in any pieces, against accidents; not collision resistant. */
class TextDigest {
  #a = OFFSET_A;
  #b = 0;
  length = 0;

  /** Adds the next piece: of `text`, the code units before `end`. Default: all of them. */
  add(text: string, end = text.length): void {
    // Both halves fit into V8's small integers: no delta allocates.
    let a = this.#a;
    let b = this.#b;
    for (let at = 0; at < end; at += 1) {
      const unit = text.charCodeAt(at);
      a = Math.imul(a ^ unit, FACTOR_A);
      b = Math.imul(b + unit + 1, FACTOR_B);
    }
    this.#a = a;
    this.#b = b;
    this.length += end;
  }

  equals(other: TextDigest): boolean {
    return this.length === other.length && this.#a === other.#a && this.#b === other.#b;
  }
}

/** The least and the largest growth of a log, in tokens: many answers are short, and many streams are idle. */
const LEAST_GROWTH = 64;
const MOST_GROWTH = 2_048;

/** Stores the tokens of one answer in order, in 4 bytes each. */
class TokenLog {
  /** The number of tokens, and the bytes that they take. Changed by this class only. */
  size = 0;
  bytes = 0;
  #tokens = new Uint32Array(0);

  /** Runs for nearly every delta. */
  add(tokens: readonly number[]): void {
    for (const token of tokens) {
      if (this.size === this.#tokens.length) {
        const grown = new Uint32Array(this.size + Math.min(MOST_GROWTH, Math.max(LEAST_GROWTH, this.size)));
        grown.set(this.#tokens);
        this.#tokens = grown;
        this.bytes = grown.byteLength;
      }
      this.#tokens[this.size] = token;
      this.size += 1;
    }
  }

  /** Returns the token at `index`, counted from 0; undefined where there is none. */
  at(index: number): number | undefined {
    return index < this.size ? this.#tokens[index] : undefined;
  }

  all(): number[] {
    return Array.from(this.#tokens.subarray(0, this.size));
  }
}

/** The properties of a block of an answer that has been passed on, without its text. */
export type PassedBlock = {
  readonly kind: "text" | "reasoning" | "toolCall";
  readonly callId: string;
  readonly name: string;
  readonly digest: TextDigest;
  /** The number of tokens whose log probabilities have been passed on. */
  logprobs: number;
  /** Whether the block was complete when it ended; undefined while it is open. */
  complete: boolean | undefined;
};

export function newBlock({ block }: BlockStarted): PassedBlock | undefined {
  if (!block) return undefined;
  const { callId, name } = block.$case === "toolCall" ? block.value : { callId: "", name: "" };
  return { kind: block.$case, callId, name, digest: new TextDigest(), logprobs: 0, complete: undefined };
}

/** Returns whether two blocks are of one kind, and for tool calls the same call. */
export function isSameBlock(one: PassedBlock, other: PassedBlock): boolean {
  return one.kind === other.kind && one.callId === other.callId && one.name === other.name;
}

/**
 * Stores the state that another engine needs to continue an answer, and by which the gateway verifies the continuation:
 * the tokens, and a digest of each block's text. It never stores text.
 */
export class AnswerLedger {
  /** The tokens that the engine has sent. They may be ahead of the text. */
  readonly tokens = new TokenLog();
  /** The blocks passed on, in their order; the last one may be open. All of these are changed by this class only. */
  readonly blocks: PassedBlock[] = [];
  started: Started | undefined;
  finished = false;
  #open: PassedBlock | undefined;

  /** Adds deltas of the open block that have been passed on, by their texts. Runs for nearly every delta. */
  addTexts(texts: readonly string[]): void {
    for (const text of texts) this.#open?.digest.add(text);
  }

  addEvents(events: readonly Event[]): void {
    for (const { kind } of events) {
      if (kind?.$case === "blockDelta") {
        const open = this.#open;
        if (!open) continue;
        open.digest.add(kind.value.text);
        open.logprobs += kind.value.logprobs.length;
      } else if (kind?.$case === "blockStarted") {
        this.#open = newBlock(kind.value);
        if (this.#open) this.blocks.push(this.#open);
      } else if (kind?.$case === "blockEnded") {
        if (this.#open) this.#open.complete = kind.value.complete;
        this.#open = undefined;
      } else if (kind?.$case === "started") {
        this.started = kind.value;
      } else if (kind?.$case === "finished") {
        this.finished = true;
      }
    }
  }
}
