import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { durationMs } from "../../deploy/runtime/time/proto-duration.ts";
import type { Event, Finished, GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Backend } from "../backend.ts";
import { progress, stepOf } from "../backends/stream-events.ts";
import type { CallerWork } from "../caller-work/caller-work.ts";
import { EngineError, toEngineError } from "../errors.ts";
import { AskedTexts, type CheckedTexts, type WholeText } from "../grammar/validation/answer-check.ts";
import { type EventSink, EventWriter } from "./event-writer.ts";

/** The longest delay of its deltas that a caller may ask for, in milliseconds: more would look like a stall. */
const MAX_BATCH_DELAY_MS = 1000;
/**
 * The least time between two messages of deltas to a caller who says nothing of it, in milliseconds: no reader sees less,
 * and a small model, which makes a token in half a millisecond, would spend more on messages than on tokens.
 */
const MIN_GAP_MS = 4;
/**
 * The milliseconds before its deadline within which a caller that leaves counts as having left because of it: the two
 * clocks started apart.
 */
const DEADLINE_TOLERANCE_MS = 50;
const NOTHING_CHECKED: CheckedTexts = { mismatches: [], unchecked: 0 };
/** The longest delay that a timer of Node can hold, in milliseconds. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The caller's end of a generation. */
export type GenerationSink = EventSink & {
  /** Ends the stream after a whole answer. */
  end(finished: Finished): void;
  /** Ends the stream with an error. Does nothing where the caller has left. */
  fail(error: EngineError): void;
};

/** What one Generate call works with. */
export type GenerationCallOptions = {
  /** The request as the caller sent it. */
  readonly request: GenerateRequest;
  /** The caller's end of the generation, which takes the events. */
  readonly sink: GenerationSink;
  /** The backend that generates. */
  readonly backend: Backend;
  /** Checks whole answers against their schemas, on threads of its own. */
  readonly work: Pick<CallerWork, "run" | "moves">;
  /** Measures the call and ends it at its deadline. */
  readonly clock: Clock;
  /** The time that the caller gave the call when it came, in milliseconds; Infinity without a deadline. */
  readonly deadlineMs: number;
  /** Throws `EngineError` when the node takes no request for this model now. */
  readonly admit: (model: string) => void;
};

/** The outcome of a generation, for metrics, the log and traces. */
export type GenerationOutcome = {
  /** The reason why the generation failed or was ended early; undefined when the answer is whole. */
  readonly failure: EngineError | undefined;
  /** The backend's last event, with usage and timings; undefined when the generation never came so far. */
  readonly finished: Finished | undefined;
  /**
   * The time from the arrival of the call to its first delta, in milliseconds; undefined when there was none, and for a
   * continuation, which begins with what it was given.
   */
  readonly firstDeltaMs: number | undefined;
  /** The tokens of the answer that another call had made before this one; 0 where the answer began with it. */
  readonly continuedTokens: number;
  /** The result of checking whole answers and arguments against the schemas of the request. */
  readonly checked: CheckedTexts;
  /** The time from the arrival of the call to its last event, in milliseconds. */
  readonly totalMs: number;
  /**
   * The time from the caller's leaving, or its deadline, to the backend's having let go, in milliseconds; undefined
   * when nothing ended the generation early.
   */
  readonly cancelMs: number | undefined;
};

/**
 * Runs one Generate call: carries the backend's events to the caller, and ends early when the caller leaves, the
 * deadline passes or the node stops.
 */
export class GenerationCall {
  readonly #options: GenerationCallOptions;
  readonly #stop = new AbortController();
  readonly #writer: EventWriter;
  readonly #begunMs: number;
  readonly #cancelDeadline: () => void;
  #stoppedMs: number | undefined;
  #over = false;
  #paused = false;

  constructor(options: GenerationCallOptions) {
    const { request, sink, clock, deadlineMs } = options;
    this.#options = options;
    this.#begunMs = clock.nowMs();
    const { resumable: tellsTokens } = request;
    const maxDelayMs = batchDelayMs(request);
    const minGapMs = maxDelayMs === undefined ? MIN_GAP_MS : 0;
    this.#writer = new EventWriter(sink, { maxDelayMs: maxDelayMs ?? 0, minGapMs, tellsTokens }, clock);
    // grpc-js' own deadline waits behind messages that a slow reader leaves lying; a slot must not.
    this.#cancelDeadline =
      deadlineMs <= MAX_TIMER_MS
        ? clock.after(Math.max(0, deadlineMs), () => this.stop(new EngineError("DEADLINE", "The deadline has passed.")))
        : () => {};
  }

  /** The request as the caller sent it. */
  get request(): GenerateRequest {
    return this.#options.request;
  }

  /** Whether the call waits for a slow reader, and so asks nothing of the backend. */
  get paused(): boolean {
    return this.#paused;
  }

  /**
   * Ends the call with an error that the caller hears at once, whatever the backend does. Does nothing when the call is
   * already over.
   */
  stop(error: EngineError): void {
    if (!this.#abort(error)) return;
    this.#writer.flush();
    this.#writer.close();
    this.#options.sink.fail(error);
  }

  /** Ends the call because its caller has gone: nothing is sent any more. */
  leave(): void {
    const { clock, deadlineMs } = this.#options;
    const late = clock.nowMs() - this.#begunMs >= deadlineMs - DEADLINE_TOLERANCE_MS;
    const error = late
      ? new EngineError("DEADLINE", "The deadline has passed.")
      : new EngineError("CANCELLED", "The caller has left.");
    if (this.#abort(error)) this.#writer.close();
  }

  /** Carries the generation from admission to its last event, and resolves to how it ended. Never rejects. */
  async run(): Promise<GenerationOutcome> {
    const { request, sink, backend, clock, admit } = this.#options;
    const { signal } = this.#stop;
    const writer = this.#writer;
    let finished: Finished | undefined;
    let firstDeltaMs: number | undefined;
    let failure: EngineError | undefined;
    const continuedTokens = request.continuation?.tokens.length ?? 0;
    const asked = new AskedTexts(request);
    let checked: CheckedTexts | undefined;
    try {
      admit(request.model);
      for await (const step of backend.generate(request, signal)) {
        if (signal.aborted) break;
        const { events } = step;
        // What another call has made comes at once, and says nothing of how fast this node is.
        if (continuedTokens === 0 && firstDeltaMs === undefined && events.some(isDelta))
          firstDeltaMs = clock.nowMs() - this.#begunMs;
        asked.see(events);
        const last = lastFinished(events);
        if (last && backend.holdsStrict && asked.whole.some(({ strict }) => strict)) {
          checked = await this.#check(asked.whole, signal, () => this.#showLife());
          if (checked.mismatches.some(({ strict }) => strict)) throw brokenPromise();
          if (signal.aborted) break;
        }
        finished = last ?? finished;
        writer.add(step);
        if (!writer.full) continue;
        this.#paused = true;
        await writer.room(signal);
        this.#paused = false;
      }
      signal.throwIfAborted();
      if (!finished) throw new EngineError("PROTOCOL_VIOLATION", "The engine ended without finishing the answer.");
    } catch (error) {
      failure = toEngineError(signal.aborted ? signal.reason : error);
    }
    this.#over = true;
    this.#paused = false;
    this.#cancelDeadline();
    if (!signal.aborted) {
      writer.flush();
      if (failure) sink.fail(failure);
      else if (finished) sink.end(finished);
    }
    writer.close();
    const now = clock.nowMs();
    const cancelMs = this.#stoppedMs === undefined ? undefined : now - this.#stoppedMs;
    // Where nothing was promised nobody waits for it: the caller has its whole answer.
    checked ??= failure ? NOTHING_CHECKED : await this.#check(asked.whole, signal);
    return { failure, finished, firstDeltaMs, continuedTokens, checked, totalMs: now - this.#begunMs, cancelMs };
  }

  /** Tells the caller that its answer is waited for, and that the threads which check it get on. */
  #showLife(): void {
    this.#writer.add(stepOf([progress(0, 0, this.#options.work.moves)]));
  }

  /**
   * Has whole texts checked against their schemas on another thread, and calls `onMove` where that has to wait. A text
   * that cannot be checked counts as unchecked and fails no answer. Never rejects.
   */
  async #check(whole: readonly WholeText[], signal: AbortSignal, onMove = () => {}): Promise<CheckedTexts> {
    if (whole.length === 0) return NOTHING_CHECKED;
    const { work, request } = this.#options;
    let isTakenIn = false;
    const order = {
      tenant: request.tenant,
      signal,
      onMove: () => {
        // That it is taken in is no news: nearly every check is over at once.
        if (isTakenIn) onMove();
        isTakenIn = true;
      },
    };
    try {
      return await work.run("check", whole, order);
    } catch {
      return { ...NOTHING_CHECKED, unchecked: whole.length };
    }
  }

  /** Stops the backend for `error`. Returns false when the call was already over or stopped. */
  #abort(error: EngineError): boolean {
    if (this.#over || this.#stop.signal.aborted) return false;
    this.#stoppedMs = this.#options.clock.nowMs();
    this.#stop.abort(error);
    return true;
  }
}

/** Returns for how long the caller lets deltas be held, in milliseconds; undefined where it says nothing of it. */
function batchDelayMs({ stream }: GenerateRequest): number | undefined {
  const delay = stream?.maxBatchDelay;
  if (!delay) return undefined;
  return Math.min(MAX_BATCH_DELAY_MS, Math.max(0, durationMs(delay)));
}

function brokenPromise(): EngineError {
  return new EngineError("ENGINE_ERROR", "The answer does not satisfy the schema.");
}

function isDelta({ kind }: Event): boolean {
  return kind?.$case === "blockDelta";
}

function lastFinished(events: readonly Event[]): Finished | undefined {
  const last = events.at(-1)?.kind;
  return last?.$case === "finished" ? last.value : undefined;
}
