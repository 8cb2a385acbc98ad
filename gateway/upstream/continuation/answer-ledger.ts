import type { BlockStarted, Event, Started } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { TextDigest } from "./text-digest.ts";
import { TokenLog } from "./token-log.ts";

/** What is known of a block of an answer that has been passed on, in place of its text. */
export type PassedBlock = {
  /** The kind of the block. */
  readonly kind: "text" | "reasoning" | "toolCall";
  /** The id of the call; empty where the block is none. */
  readonly callId: string;
  /** The name of the tool that is called; empty where the block is no call. */
  readonly name: string;
  /** The digest of the text that has been passed on. */
  readonly digest: TextDigest;
  /** The number of tokens whose log probabilities have been passed on. */
  logprobs: number;
  /** Whether the block was whole when it ended; undefined while it is open. */
  complete: boolean | undefined;
};

/** Returns what is known of a block that begins; undefined where it has no kind that this gateway knows. */
export function newBlock({ block }: BlockStarted): PassedBlock | undefined {
  if (!block) return undefined;
  const { callId, name } = block.$case === "toolCall" ? block.value : { callId: "", name: "" };
  return { kind: block.$case, callId, name, digest: new TextDigest(), logprobs: 0, complete: undefined };
}

/** Returns whether two blocks are of one kind, and the same call where they are calls. */
export function isSameBlock(one: PassedBlock, other: PassedBlock): boolean {
  return one.kind === other.kind && one.callId === other.callId && one.name === other.name;
}

/**
 * Keeps what another engine needs to go on with an answer, and what tells whether it really went on with this one: the
 * tokens, and of the text that was passed on a digest for each block. It never keeps text.
 */
export class AnswerLedger {
  /** The tokens that the engine has told. They may be ahead of the text. */
  readonly tokens = new TokenLog();
  readonly #blocks: PassedBlock[] = [];
  #open: PassedBlock | undefined;
  #started: Started | undefined;
  #finished = false;

  /** The first word of the engine that began the answer; undefined until it has come. */
  get started(): Started | undefined {
    return this.#started;
  }

  /** The blocks that have been passed on, in their order; the last one may be open. */
  get blocks(): readonly PassedBlock[] {
    return this.#blocks;
  }

  /** Whether the answer is complete. */
  get finished(): boolean {
    return this.#finished;
  }

  /** Notes the tokens of one message. It runs on the path of every delta. */
  tell(tokens: readonly number[]): void {
    for (const token of tokens) this.tokens.push(token);
  }

  /** Notes deltas of the open block that have been passed on, by their texts. It runs on the path of nearly every delta. */
  noteTexts(texts: readonly string[]): void {
    for (const text of texts) this.#open?.digest.add(text);
  }

  /** Notes events that have been passed on. */
  note(events: readonly Event[]): void {
    for (const { kind } of events) {
      if (kind?.$case === "blockDelta") {
        const open = this.#open;
        if (!open) continue;
        open.digest.add(kind.value.text);
        open.logprobs += kind.value.logprobs.length;
      } else if (kind?.$case === "blockStarted") {
        this.#open = newBlock(kind.value);
        if (this.#open) this.#blocks.push(this.#open);
      } else if (kind?.$case === "blockEnded") {
        if (this.#open) this.#open.complete = kind.value.complete;
        this.#open = undefined;
      } else if (kind?.$case === "started") {
        this.#started = kind.value;
      } else if (kind?.$case === "finished") {
        this.#finished = true;
      }
    }
  }
}
