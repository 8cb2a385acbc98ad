import type { BlockDelta, BlockStarted, Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type AnswerLedger, isSameBlock, newBlock, type PassedBlock } from "./answer-ledger.ts";

/**
 * Follows the events of an engine that continues an answer, and returns those that its caller does not have yet. The
 * engine repeats the whole answer: up to the caller's position it must have the same blocks, calls and text, in any
 * division into deltas, and the given tokens.
 */
export class Replay {
  readonly #ledger: AnswerLedger;
  /** The number of tokens given to the engine. */
  readonly #given: number;
  /** The blocks that the caller has, of which the last may be open. */
  readonly #passed: readonly PassedBlock[];
  /** The number of tokens that the engine has sent. */
  #told = 0;
  /** The number of blocks that the engine has begun. */
  #begun = 0;
  /** The block that the engine is sending. */
  #block: PassedBlock | undefined;
  #caughtUp: boolean;

  /** Begins to follow an engine that was given the tokens of `ledger`. */
  constructor(ledger: AnswerLedger) {
    this.#ledger = ledger;
    this.#given = ledger.tokens.size;
    this.#passed = [...ledger.blocks];
    this.#caughtUp = this.#passed.length === 0;
  }

  /** Whether the engine has repeated everything that the caller has: all further events are new. */
  get caughtUp(): boolean {
    return this.#caughtUp;
  }

  /** Whether the engine has repeated all given tokens: all further ones are new. */
  get toldAgain(): boolean {
    return this.#told >= this.#given;
  }

  /** Whether the engine has generated new tokens. */
  get gotOn(): boolean {
    return this.#told > this.#given;
  }

  /** Returns the new tokens of the next message; undefined where a repeated one differs from that given. */
  newTokens(tokens: readonly number[]): readonly number[] | undefined {
    if (this.toldAgain) {
      this.#told += tokens.length;
      return tokens;
    }
    const before = this.#told;
    const again = Math.min(tokens.length, this.#given - before);
    for (let at = 0; at < again; at += 1) if (tokens[at] !== this.#ledger.tokens.at(before + at)) return undefined;
    this.#told += tokens.length;
    return tokens.slice(again);
  }

  /** Returns the new events among the next; undefined where the answer differs. A second `started` is not passed on. */
  newEvents(events: readonly Event[]): readonly Event[] | undefined {
    const fresh: Event[] = [];
    for (const event of events) {
      const { kind } = event;
      if (kind?.$case === "started") {
        if (kind.value.modelRevision !== this.#ledger.started?.modelRevision) return undefined;
        continue;
      }
      const isOld = !this.#caughtUp && kind !== undefined && kind.$case !== "progress";
      const rest = isOld ? this.#again(event) : event;
      if (rest === "differs") return undefined;
      if (rest) fresh.push(rest);
    }
    return fresh;
  }

  /** Takes an event that repeats a part of the answer. Returns its new part; undefined where there is none. */
  #again(event: Event): Event | "differs" | undefined {
    const { kind } = event;
    switch (kind?.$case) {
      case "blockStarted":
        return this.#begins(kind.value);
      case "blockDelta":
        return this.#goesOn(kind.value);
      case "blockEnded":
        return this.#ends(kind.value.complete);
      default:
        // It ends before the caller's position.
        return "differs";
    }
  }

  #begins(started: BlockStarted): "differs" | undefined {
    const passed = this.#passed[this.#begun];
    const block = newBlock(started);
    if (!passed || !block || !isSameBlock(block, passed)) return "differs";
    this.#block = block;
    this.#begun += 1;
    return this.#look(block, passed);
  }

  #goesOn({ index, text, logprobs }: BlockDelta): Event | "differs" | undefined {
    const [block, passed] = this.#place();
    if (!block || !passed) return "differs";
    const left = passed.digest.length - block.digest.length;
    const isOpen = passed.complete === undefined;
    if (text.length > left && !isOpen) return "differs";
    block.digest.add(text, Math.min(text.length, left));
    const known = Math.max(0, passed.logprobs - block.logprobs);
    block.logprobs += logprobs.length;
    if (this.#look(block, passed) === "differs") return "differs";
    if (text.length <= left) return undefined;
    return { kind: { $case: "blockDelta", value: { index, text: text.slice(left), logprobs: logprobs.slice(known) } } };
  }

  #ends(complete: boolean): "differs" | undefined {
    const [block, passed] = this.#place();
    if (!block || !passed || complete !== passed.complete || !block.digest.equals(passed.digest)) return "differs";
    this.#block = undefined;
    this.#caughtUp = this.#begun === this.#passed.length;
    return undefined;
  }

  /** Compares the open block with that of the caller, up to the caller's position. */
  #look(block: PassedBlock, passed: PassedBlock): "differs" | undefined {
    if (passed.complete !== undefined || block.digest.length < passed.digest.length) return undefined;
    this.#caughtUp = true;
    return block.digest.equals(passed.digest) ? undefined : "differs";
  }

  #place(): readonly [PassedBlock | undefined, PassedBlock | undefined] {
    return [this.#block, this.#passed[this.#begun - 1]];
  }
}
