import type {
  BlockDelta,
  BlockStarted,
  Event,
  Started,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type AnswerLedger, isSameBlock, newBlock, type PassedBlock } from "./answer-ledger.ts";

/**
 * Follows the events of an engine that continues an answer, and returns those that its caller does not have yet. The
 * engine repeats the whole answer: up to the caller's position it must have the same blocks, calls and text, in any
 * division into deltas, and the given tokens.
 */
export class Replay {
  readonly #ledger: AnswerLedger;
  readonly #given: number;
  /** The blocks that the caller has, of which the last may be open. */
  readonly #passed: readonly PassedBlock[];
  #received = 0;
  #blocks = 0;
  #block: PassedBlock | undefined;
  /** Whether the engine has repeated everything that the caller has: all further events are new. */
  caughtUp: boolean;

  constructor(ledger: AnswerLedger) {
    this.#ledger = ledger;
    this.#given = ledger.tokens.size;
    this.#passed = [...ledger.blocks];
    this.caughtUp = this.#passed.length === 0;
  }

  /** Whether the engine has repeated all given tokens: all further ones are new. */
  get tokensRepeated(): boolean {
    return this.#received >= this.#given;
  }

  get advanced(): boolean {
    return this.#received > this.#given;
  }

  /** Returns the new tokens of the next message; undefined where a repeated one differs from that given. */
  newTokens(tokens: readonly number[]): readonly number[] | undefined {
    if (this.tokensRepeated) {
      this.#received += tokens.length;
      return tokens;
    }
    const before = this.#received;
    const again = Math.min(tokens.length, this.#given - before);
    for (let at = 0; at < again; at += 1) if (tokens[at] !== this.#ledger.tokens.at(before + at)) return undefined;
    this.#received += tokens.length;
    return tokens.slice(again);
  }

  /** Returns the new events among the next; undefined where the answer differs. A second `started` is not passed on. */
  newEvents(events: readonly Event[]): readonly Event[] | undefined {
    const fresh: Event[] = [];
    for (const event of events) {
      const { kind } = event;
      if (kind?.$case === "started") {
        if (!isSamePrompt(kind.value, this.#ledger.started)) return undefined;
        continue;
      }
      const isOld = !this.caughtUp && kind !== undefined && kind.$case !== "progress";
      const rest = isOld ? this.#repeated(event) : event;
      if (rest === "differs") return undefined;
      if (rest) fresh.push(rest);
    }
    return fresh;
  }

  /** Takes an event that repeats a part of the answer. Returns its new part; undefined where there is none. */
  #repeated(event: Event): Event | "differs" | undefined {
    const { kind } = event;
    switch (kind?.$case) {
      case "blockStarted":
        return this.#started(kind.value);
      case "blockDelta":
        return this.#delta(kind.value);
      case "blockEnded":
        return this.#ended(kind.value.complete);
      default:
        // It ends before the caller's position.
        return "differs";
    }
  }

  #started(started: BlockStarted): "differs" | undefined {
    const passed = this.#passed[this.#blocks];
    const block = newBlock(started);
    if (!passed || !block || !isSameBlock(block, passed)) return "differs";
    this.#block = block;
    this.#blocks += 1;
    return this.#compare(block, passed);
  }

  #delta({ index, text, logprobs }: BlockDelta): Event | "differs" | undefined {
    const [block, passed] = this.#current();
    if (!block || !passed) return "differs";
    const left = passed.digest.length - block.digest.length;
    const isOpen = passed.complete === undefined;
    if (text.length > left && !isOpen) return "differs";
    block.digest.add(text, Math.min(text.length, left));
    const known = Math.max(0, passed.logprobs - block.logprobs);
    block.logprobs += logprobs.length;
    if (this.#compare(block, passed) === "differs") return "differs";
    if (text.length <= left) return undefined;
    return { kind: { $case: "blockDelta", value: { index, text: text.slice(left), logprobs: logprobs.slice(known) } } };
  }

  #ended(complete: boolean): "differs" | undefined {
    const [block, passed] = this.#current();
    if (!block || !passed || complete !== passed.complete || !block.digest.equals(passed.digest)) return "differs";
    this.#block = undefined;
    this.caughtUp = this.#blocks === this.#passed.length;
    return undefined;
  }

  /** Compares the open block with that of the caller, up to the caller's position. */
  #compare(block: PassedBlock, passed: PassedBlock): "differs" | undefined {
    if (passed.complete !== undefined || block.digest.length < passed.digest.length) return undefined;
    this.caughtUp = true;
    return block.digest.equals(passed.digest) ? undefined : "differs";
  }

  #current(): readonly [PassedBlock | undefined, PassedBlock | undefined] {
    return [this.#block, this.#passed[this.#blocks - 1]];
  }
}

/** Whether two nodes have the same prompt: by its digests, or by their revisions where one of them sent none. */
function isSamePrompt(now: Started, first: Started | undefined): boolean {
  const [one, other] = [now.promptDigest, first?.promptDigest];
  if (one === undefined || other === undefined) return now.modelRevision === first?.modelRevision;
  return one === other;
}
