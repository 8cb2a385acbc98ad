import type { Event, Finished } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Resumption } from "../request/encoded-request.ts";
import { AnswerLedger } from "./answer-ledger.ts";
import type { ContinuationBudget, KeptAnswer, NotKept } from "./continuation-budget.ts";
import { Replay } from "./replay.ts";

/** The bytes of an answer beside its request and its tokens: the properties of its blocks, and its own. */
const ANSWER_BYTES = 2_048;

export type ResumableAnswerOptions = {
  readonly budget: ContinuationBudget;
  readonly tenant: string;
  /** The size of the encoded request in bytes, which is kept along with the answer. */
  readonly requestBytes: number;
  /** Called with the reason when the answer cannot be kept: it then fails with its engine. */
  readonly onNotKept: (why: NotKept) => void;
  /** Called for each engine that continues the answer, at its first new event. */
  readonly onGoesOn: () => void;
};

/** An answer that may outlive its engine: of one that continues it, only new events are passed on. */
export class ResumableAnswer {
  readonly #options: ResumableAnswerOptions;
  /** The answer so far; undefined where it is not kept. */
  #ledger: AnswerLedger | undefined;
  #kept: KeptAnswer | undefined;
  #tokenBytes = 0;
  #replay: Replay | undefined;
  #goesOn = false;
  workedOn = false;
  #isBetween = false;
  #tokensBefore = 0;

  constructor(options: ResumableAnswerOptions) {
    this.#options = options;
  }

  get kept(): boolean {
    return this.#ledger !== undefined;
  }

  /** Whether there is an answer to continue: an engine has sent tokens of it. */
  get begun(): boolean {
    return this.#ledger?.started !== undefined && this.#ledger.tokens.size > 0;
  }

  get finished(): boolean {
    return this.#ledger?.finished ?? false;
  }

  /** The revision of the model that began the answer; empty where unknown. */
  get revision(): string {
    return this.#ledger?.started?.modelRevision ?? "";
  }

  /** The digest of the prompt on the node that began the answer; undefined where it sent none. */
  get promptDigest(): string | undefined {
    return this.#ledger?.started?.promptDigest;
  }

  get tokens(): number {
    return this.#ledger?.tokens.size ?? 0;
  }

  /** Whether the engine that was to continue the answer has sent more than the caller had. */
  get resumed(): boolean {
    return this.#goesOn;
  }

  get continued(): boolean {
    return this.#replay !== undefined;
  }

  /** Whether the engine of the running or last attempt has generated new tokens. */
  get advanced(): boolean {
    return this.#replay ? this.#replay.advanced : this.tokens > this.#tokensBefore;
  }

  /** Begins an attempt, which continues the answer if `continues`. Returns the resumption to request. */
  begin(canContinue: boolean, continues: boolean): Resumption {
    const ledger = this.#ledger;
    this.#tokensBefore = this.tokens;
    this.#goesOn = false;
    this.workedOn = false;
    this.#isBetween = false;
    if (ledger && continues && this.begun) {
      this.#replay = new Replay(ledger);
      const callIds = ledger.blocks.filter(({ kind }) => kind === "toolCall").map(({ callId }) => callId);
      const { revision: modelRevision, promptDigest } = this;
      return {
        modelRevision,
        ...(promptDigest !== undefined && { promptDigest }),
        tokens: ledger.tokens.all(),
        callIds,
      };
    }
    this.#replay = undefined;
    this.forget();
    if (!canContinue || !this.#keep()) return "none";
    this.#ledger = new AnswerLedger();
    return "resumable";
  }

  /** Returns the events to pass on; undefined where a continuing engine sends a different answer. */
  take(events: readonly Event[], tokens: readonly number[]): readonly Event[] | undefined {
    const ledger = this.#ledger;
    this.workedOn = true;
    if (!ledger) return events;
    const replay = this.#replay;
    if (replay) return this.#takeAgain(ledger, replay, events, tokens);
    ledger.tokens.add(tokens);
    this.#grow(ledger);
    ledger.addEvents(events);
    return events;
  }

  /** Takes deltas, for nearly every one. Returns false where `take` has to compare them. */
  takeDeltas(texts: readonly string[], tokens: readonly number[]): boolean {
    const ledger = this.#ledger;
    const replay = this.#replay;
    if (ledger && replay && !(this.#goesOn && replay.tokensRepeated)) return false;
    this.workedOn = true;
    if (!ledger) return true;
    replay?.newTokens(tokens);
    ledger.tokens.add(tokens);
    if (ledger.tokens.bytes !== this.#tokenBytes) this.#grow(ledger);
    ledger.addTexts(texts);
    return true;
  }

  /** Records the end of an attempt: until the next step is decided, the answer is not released. */
  attemptEnded(): void {
    this.#isBetween = true;
  }

  /** Discards the answer and releases its bytes: no engine can continue it any more. Idempotent. */
  forget(): void {
    this.#ledger = undefined;
    this.#kept?.release();
    this.#kept = undefined;
    this.#tokenBytes = 0;
  }

  #takeAgain(
    ledger: AnswerLedger,
    replay: Replay,
    events: readonly Event[],
    tokens: readonly number[],
  ): readonly Event[] | undefined {
    const newTokens = replay.newTokens(tokens);
    // After the caller's position, a delta costs no more than one of an uncontinued answer.
    const fresh = this.#goesOn ? events : newTokens && replay.newEvents(events);
    if (!newTokens || !fresh) return undefined;
    ledger.tokens.add(newTokens);
    this.#grow(ledger);
    const isLast = fresh.at(-1)?.kind?.$case === "finished";
    const passed = isLast ? fresh.map((event) => asOneAnswer(event, ledger)) : fresh;
    ledger.addEvents(passed);
    if (!this.#goesOn && passed.some(({ kind }) => kind !== undefined && kind.$case !== "progress")) {
      this.#goesOn = true;
      this.#options.onGoesOn();
    }
    return passed;
  }

  #keep(): boolean {
    const { budget, tenant, requestBytes, onNotKept } = this.#options;
    const kept = budget.keep(tenant, requestBytes + ANSWER_BYTES, () => this.#releaseKept());
    if (typeof kept === "string") onNotKept(kept);
    else this.#kept = kept;
    return typeof kept !== "string";
  }

  /** Releases the answer; false while an engine repeats it: its new part could not be determined. */
  #releaseKept(): boolean {
    if (this.#isBetween || (this.#replay && !this.#goesOn)) return false;
    this.forget();
    this.#options.onNotKept("released");
    return true;
  }

  /** Takes capacity for received tokens; an answer without capacity is no longer kept. */
  #grow(ledger: AnswerLedger): void {
    const { bytes } = ledger.tokens;
    if (bytes === this.#tokenBytes) return;
    // Until then the ledger is needed to determine the new part.
    if (this.#replay && !this.#replay.caughtUp) return;
    const lack = this.#kept?.grow(bytes - this.#tokenBytes);
    this.#tokenBytes = bytes;
    if (!lack) return;
    this.forget();
    this.#options.onNotKept(lack);
  }
}

/** The event as the first engine would have sent it: with its cached tokens. */
function asOneAnswer(event: Event, { started }: AnswerLedger): Event {
  const cachedInputTokens = started?.cachedInputTokens;
  if (event.kind?.$case !== "finished" || cachedInputTokens === undefined) return event;
  const { usage, ...rest } = event.kind.value;
  if (!usage) return event;
  const cacheWriteTokens = Math.min(usage.cacheWriteTokens, Math.max(0, usage.inputTokens - cachedInputTokens));
  const value: Finished = { ...rest, usage: { ...usage, cachedInputTokens, cacheWriteTokens } };
  return { kind: { $case: "finished", value } };
}
