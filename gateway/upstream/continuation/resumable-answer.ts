import type { Event, Finished } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { AnswerLedger } from "./answer-ledger.ts";
import type { ContinuationRoom, KeptAnswer, NotKept } from "./continuation-room.ts";
import { Replay } from "./replay.ts";
import type { Resumption } from "./resumable-message.ts";

/** What an answer takes up beside its request and its tokens, in bytes: what is known of its blocks, and of itself. */
const ANSWER_BYTES = 2_048;

/** The parts of one kept answer. */
export type ResumableAnswerOptions = {
  /** The room that all kept answers share. */
  readonly room: ContinuationRoom;
  /** The tenant that the answer belongs to. */
  readonly tenant: string;
  /** The size of the encoded request in bytes, which is kept along with the answer. */
  readonly requestBytes: number;
  /** Called when the answer cannot be kept, with the reason: it then fails with its engine. */
  readonly onNotKept: (why: NotKept) => void;
  /** Called each time when an engine that goes on with the answer brings what its caller does not have yet. */
  readonly onGoesOn: () => void;
};

/**
 * One answer that may outlive the engine that began it. It stands on the path of every event: it keeps what another
 * engine needs to go on, and of that other engine lets through what the caller does not have yet.
 */
export class ResumableAnswer {
  readonly #options: ResumableAnswerOptions;
  /** The answer so far; undefined where it is not kept. */
  #ledger: AnswerLedger | undefined;
  #kept: KeptAnswer | undefined;
  /** The memory of the tokens that has been taken from the room, in bytes. */
  #tokenBytes = 0;
  #replay: Replay | undefined;
  /** Whether the engine that goes on has brought something new. */
  #goesOn = false;
  #workedOn = false;
  /** Whether a try has ended, and no other one has begun yet. */
  #isBetween = false;
  /** The number of tokens that were there when the try that runs began. */
  #tokensBefore = 0;

  constructor(options: ResumableAnswerOptions) {
    this.#options = options;
  }

  /** Whether the answer is kept, so that another engine could go on with it. */
  get kept(): boolean {
    return this.#ledger !== undefined;
  }

  /** Whether there is anything to go on with: an engine has told tokens of the answer. */
  get begun(): boolean {
    return this.#ledger?.started !== undefined && this.#ledger.tokens.size > 0;
  }

  /** Whether the last event of the answer has been passed on. */
  get finished(): boolean {
    return this.#ledger?.finished ?? false;
  }

  /** The revision of the model that began the answer; empty where that is not known. */
  get revision(): string {
    return this.#ledger?.started?.modelRevision ?? "";
  }

  /** The number of tokens that another engine would be given. */
  get tokens(): number {
    return this.#ledger?.tokens.size ?? 0;
  }

  /** Whether the engine of the try that runs, or has just ended, has said anything. */
  get workedOn(): boolean {
    return this.#workedOn;
  }

  /** Whether the engine that was to go on with the answer has brought more of it than the caller had. */
  get wentOn(): boolean {
    return this.#goesOn;
  }

  /** Whether the try that runs, or has just ended, goes on with what another engine had begun. */
  get continued(): boolean {
    return this.#replay !== undefined;
  }

  /** Whether an engine has generated tokens of its own in the try that runs, or has just ended. */
  get gotOn(): boolean {
    return this.#replay ? this.#replay.gotOn : this.tokens > this.#tokensBefore;
  }

  /**
   * Begins a try that goes on with the answer where `goOn` says so and one is under way, and begins anew otherwise.
   * `canContinue` says whether the endpoint can be continued. Returns what it is to be asked for.
   */
  begin(canContinue: boolean, goOn: boolean): Resumption {
    const ledger = this.#ledger;
    this.#tokensBefore = this.tokens;
    this.#goesOn = false;
    this.#workedOn = false;
    this.#isBetween = false;
    if (ledger && goOn && this.begun) {
      this.#replay = new Replay(ledger);
      const callIds = ledger.blocks.filter(({ kind }) => kind === "toolCall").map(({ callId }) => callId);
      return { modelRevision: this.revision, tokens: ledger.tokens.all(), callIds };
    }
    this.#replay = undefined;
    this.forget();
    if (!canContinue || !this.#keep()) return "none";
    this.#ledger = new AnswerLedger();
    return "resumable";
  }

  /**
   * Takes the next message of the try that runs, on the path of every delta. Returns the events to pass on; undefined
   * where an engine that was to go on with the answer tells another one.
   */
  take(events: readonly Event[], tokens: readonly number[]): readonly Event[] | undefined {
    const ledger = this.#ledger;
    this.#workedOn = true;
    if (!ledger) return events;
    const replay = this.#replay;
    if (replay) return this.#takeAgain(ledger, replay, events, tokens);
    ledger.tell(tokens);
    this.#grow(ledger);
    ledger.note(events);
    return events;
  }

  /**
   * Takes deltas of the open block of the try that runs by their texts, which are all to be passed on, and the tokens
   * behind them; it runs on the path of nearly every delta. Returns false, and has taken nothing, where `take` has to
   * compare them with what the caller has.
   */
  takeDeltas(texts: readonly string[], tokens: readonly number[]): boolean {
    const ledger = this.#ledger;
    const replay = this.#replay;
    if (ledger && replay && !(this.#goesOn && replay.toldAgain)) return false;
    this.#workedOn = true;
    if (!ledger) return true;
    replay?.newTokens(tokens);
    ledger.tell(tokens);
    this.#grow(ledger);
    ledger.noteTexts(texts);
    return true;
  }

  /** Notes that the try has ended: until it is decided whether another one goes on, the answer is not let go of. */
  tryEnded(): void {
    this.#isBetween = true;
  }

  /** Forgets the answer and gives its room back: no engine can go on with it any more. A second call does nothing. */
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
    // Behind what the caller had, a delta costs no more than one of an answer that nobody continues.
    const fresh = this.#goesOn ? events : newTokens && replay.newEvents(events);
    if (!newTokens || !fresh) return undefined;
    ledger.tell(newTokens);
    this.#grow(ledger);
    const isLast = fresh.at(-1)?.kind?.$case === "finished";
    const passed = isLast ? fresh.map((event) => asOneAnswer(event, ledger)) : fresh;
    ledger.note(passed);
    if (!this.#goesOn && passed.some(({ kind }) => kind !== undefined && kind.$case !== "progress")) {
      this.#goesOn = true;
      this.#options.onGoesOn();
    }
    return passed;
  }

  #keep(): boolean {
    const { room, tenant, requestBytes, onNotKept } = this.#options;
    const kept = room.keep(tenant, requestBytes + ANSWER_BYTES, () => this.#letGo());
    if (typeof kept === "string") onNotKept(kept);
    else this.#kept = kept;
    return typeof kept !== "string";
  }

  /**
   * Lets go of the answer, as memory is short. Returns false while another engine takes it up: whoever has forgotten what
   * the caller has could not tell what is new.
   */
  #letGo(): boolean {
    if (this.#isBetween || (this.#replay && !this.#goesOn)) return false;
    this.forget();
    this.#options.onNotKept("released");
    return true;
  }

  /** Takes room for the tokens that have come; an answer that finds none is kept no longer. */
  #grow(ledger: AnswerLedger): void {
    const { bytes } = ledger.tokens;
    if (bytes === this.#tokenBytes) return;
    // Until then it takes the ledger to know what is new.
    if (this.#replay && !this.#replay.caughtUp) return;
    const lack = this.#kept?.grow(bytes - this.#tokenBytes);
    this.#tokenBytes = bytes;
    if (!lack) return;
    this.forget();
    this.#options.onNotKept(lack);
  }
}

/**
 * Returns an event of an engine that went on with an answer as the engine would tell it that began it: what was cached
 * of the prompt is what that one found.
 */
function asOneAnswer(event: Event, { started }: AnswerLedger): Event {
  const cachedInputTokens = started?.cachedInputTokens;
  if (event.kind?.$case !== "finished" || cachedInputTokens === undefined) return event;
  const { usage, ...rest } = event.kind.value;
  if (!usage) return event;
  const cacheWriteTokens = Math.min(usage.cacheWriteTokens, Math.max(0, usage.inputTokens - cachedInputTokens));
  const value: Finished = { ...rest, usage: { ...usage, cachedInputTokens, cacheWriteTokens } };
  return { kind: { $case: "finished", value } };
}
