import type { BlockStarted, Event, Started } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { TextDigest } from "./text-digest.ts";
import { TokenLog } from "./token-log.ts";

/** The properties of a block of an answer that has been passed on, without its text. */
export type PassedBlock = {
  readonly kind: "text" | "reasoning" | "toolCall";
  /** Empty where the block is no tool call. */
  readonly callId: string;
  /** The name of the called tool; empty where the block is no tool call. */
  readonly name: string;
  /** The digest of the text passed on. */
  readonly digest: TextDigest;
  /** The number of tokens whose log probabilities have been passed on. */
  logprobs: number;
  /** Whether the block was complete when it ended; undefined while it is open. */
  complete: boolean | undefined;
};

/** Returns the properties of a block that begins; undefined for an unknown kind. */
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
  readonly #blocks: PassedBlock[] = [];
  #open: PassedBlock | undefined;
  #started: Started | undefined;
  #finished = false;

  /** The first event of the engine that began the answer; undefined before it. */
  get started(): Started | undefined {
    return this.#started;
  }

  /** The blocks passed on, in their order; the last one may be open. */
  get blocks(): readonly PassedBlock[] {
    return this.#blocks;
  }

  get finished(): boolean {
    return this.#finished;
  }

  /** Adds the tokens of one message. Runs for every delta. */
  tell(tokens: readonly number[]): void {
    for (const token of tokens) this.tokens.push(token);
  }

  /** Adds deltas of the open block that have been passed on, by their texts. Runs for nearly every delta. */
  noteTexts(texts: readonly string[]): void {
    for (const text of texts) this.#open?.digest.add(text);
  }

  /** Adds events that have been passed on. */
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
