import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { durationMs } from "../../deploy/runtime/time/clock.ts";
import type { Event, Finished, GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Backend } from "../backend.ts";
import { progress, stepOf } from "../backends/stream-events.ts";
import type { CallerWork } from "../caller-work/caller-work.ts";
import { EngineError, toEngineError } from "../errors.ts";
import { AskedTexts, type CheckedTexts, type WholeText } from "../grammar/validation/answer-check.ts";
import { type EventSink, EventWriter } from "./event-writer.ts";

/** The longest batch delay that a caller may request, in milliseconds: a longer one would look like a stall. */
const MAX_BATCH_DELAY_MS = 1000;
/** The least time between two messages of deltas if the request sets no delay, in milliseconds: readers perceive no less. */
const MIN_GAP_MS = 4;
/** A caller that leaves this close to its deadline counts as DEADLINE, as the two clocks started apart; milliseconds. */
const DEADLINE_TOLERANCE_MS = 50;
const NOTHING_CHECKED: CheckedTexts = { mismatches: [], unchecked: 0 };
/** The longest delay of a Node timer, in milliseconds. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export type GenerationSink = EventSink & {
  end(finished: Finished): void;
  /** Ends the stream with an error. Does nothing if the caller has left. */
  fail(error: EngineError): void;
};

export type GenerationCallOptions = {
  readonly request: GenerateRequest;
  readonly sink: GenerationSink;
  readonly backend: Backend;
  readonly work: Pick<CallerWork, "run" | "moves">;
  readonly clock: Clock;
  /** The caller's timeout on arrival, in milliseconds; Infinity without a deadline. */
  readonly deadlineMs: number;
  readonly admit: (model: string) => void;
};

export type GenerationOutcome = {
  /** Undefined when the answer is whole. */
  readonly failure: EngineError | undefined;
  /** The backend's last event; undefined if the generation did not get that far. */
  readonly finished: Finished | undefined;
  /** The time from arrival to the first delta, in milliseconds; undefined for a continuation, which repeats deltas. */
  readonly firstDeltaMs: number | undefined;
  /** The number of the answer's tokens that earlier calls made. */
  readonly continuedTokens: number;
  readonly checked: CheckedTexts;
  readonly totalMs: number;
  /** The time from an early end to the release by the backend, in milliseconds. */
  readonly cancelMs: number | undefined;
};

/** One Generate call. It ends early if the caller leaves, the deadline passes or the node stops. */
export class GenerationCall {
  readonly #options: GenerationCallOptions;
  readonly #stop = new AbortController();
  readonly #writer: EventWriter;
  readonly #begunMs: number;
  readonly #cancelDeadline: () => void;
  #stoppedMs: number | undefined;
  #over = false;
  paused = false;

  constructor(options: GenerationCallOptions) {
    const { request, sink, clock, deadlineMs } = options;
    this.#options = options;
    this.#begunMs = clock.nowMs();
    const delay = request.stream?.maxBatchDelay;
    const maxDelayMs = delay ? Math.min(MAX_BATCH_DELAY_MS, Math.max(0, durationMs(delay))) : 0;
    const batching = { maxDelayMs, minGapMs: delay ? 0 : MIN_GAP_MS, sendsTokens: request.resumable };
    this.#writer = new EventWriter(sink, batching, clock);
    // The deadline of grpc-js is queued behind messages that a slow reader has not taken; a slot must not wait for
    // that.
    this.#cancelDeadline =
      deadlineMs <= MAX_TIMER_MS
        ? clock.after(Math.max(0, deadlineMs), () => this.stop(new EngineError("DEADLINE", "The deadline has passed.")))
        : () => {};
  }

  get request(): GenerateRequest {
    return this.#options.request;
  }

  /** Ends the call with an error that is sent at once, whatever the backend does. */
  stop(error: EngineError): void {
    if (!this.#abort(error)) return;
    this.#writer.flush();
    this.#writer.close();
    this.#options.sink.fail(error);
  }

  leave(): void {
    const { clock, deadlineMs } = this.#options;
    const late = clock.nowMs() - this.#begunMs >= deadlineMs - DEADLINE_TOLERANCE_MS;
    const error = late
      ? new EngineError("DEADLINE", "The deadline has passed.")
      : new EngineError("CANCELLED", "The caller has left.");
    if (this.#abort(error)) this.#writer.close();
  }

  /** Never rejects. */
  async run(): Promise<GenerationOutcome> {
    const { request, sink, backend, work, clock, admit } = this.#options;
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
        // Tokens of earlier calls arrive at once and do not measure this node's speed.
        if (
          continuedTokens === 0 &&
          firstDeltaMs === undefined &&
          events.some(({ kind }) => kind?.$case === "blockDelta")
        )
          firstDeltaMs = clock.nowMs() - this.#begunMs;
        asked.see(events);
        const last = lastFinished(events);
        if (last && backend.holdsStrict && asked.whole.some(({ strict }) => strict)) {
          checked = await this.#check(asked.whole, signal, () => writer.add(stepOf([progress(0, 0, work.moves)])));
          if (checked.mismatches.some(({ strict }) => strict))
            throw new EngineError("ENGINE_ERROR", "The answer does not satisfy the schema.");
          if (signal.aborted) break;
        }
        finished = last ?? finished;
        writer.add(step);
        if (!writer.full) continue;
        this.paused = true;
        await writer.writable(signal);
        this.paused = false;
      }
      signal.throwIfAborted();
      if (!finished) throw new EngineError("PROTOCOL_VIOLATION", "The engine ended without finishing the answer.");
    } catch (error) {
      failure = toEngineError(signal.aborted ? signal.reason : error);
    }
    this.#over = true;
    this.paused = false;
    this.#cancelDeadline();
    if (!signal.aborted) {
      writer.flush();
      if (failure) sink.fail(failure);
      else if (finished) sink.end(finished);
    }
    writer.close();
    const now = clock.nowMs();
    const cancelMs = this.#stoppedMs === undefined ? undefined : now - this.#stoppedMs;
    // Without a strict schema the check delays no caller: the whole answer has been sent.
    checked ??= failure ? NOTHING_CHECKED : await this.#check(asked.whole, signal);
    return { failure, finished, firstDeltaMs, continuedTokens, checked, totalMs: now - this.#begunMs, cancelMs };
  }

  /** Validates whole texts on a worker thread, and calls `onMove` while the check waits. Never rejects. */
  async #check(whole: readonly WholeText[], signal: AbortSignal, onMove = () => {}): Promise<CheckedTexts> {
    if (whole.length === 0) return NOTHING_CHECKED;
    const { work, request } = this.#options;
    let isTakenIn = false;
    const order = {
      tenant: request.tenant,
      signal,
      onMove: () => {
        // The first move is the admission of the job: nearly every check ends at once after it.
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

  /** Stops the backend with `error`. Returns false if the call was already over or stopped. */
  #abort(error: EngineError): boolean {
    if (this.#over || this.#stop.signal.aborted) return false;
    this.#stoppedMs = this.#options.clock.nowMs();
    this.#stop.abort(error);
    return true;
  }
}

function lastFinished(events: readonly Event[]): Finished | undefined {
  const last = events.at(-1)?.kind;
  return last?.$case === "finished" ? last.value : undefined;
}
