import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { durationMs } from "../../deploy/runtime/time/proto-duration.ts";
import type { Event, Finished, GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Backend } from "../backend.ts";
import type { CallerWork } from "../caller-work/caller-work.ts";
import { EngineError, toEngineError } from "../errors.ts";
import { AskedTexts, type CheckedTexts, type WholeText } from "../grammar/validation/answer-check.ts";
import { type EventSink, EventWriter } from "./event-writer.ts";

/** Longest that a caller may have its deltas held: more would look like a stall. */
const MAX_BATCH_DELAY_MS = 1000;
/** A caller that gives up this shortly before its deadline gave up because of it: the two clocks started apart. */
const DEADLINE_TOLERANCE_MS = 50;
const NOTHING_CHECKED: CheckedTexts = { mismatches: [], unchecked: 0 };
/** What a timer can hold. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The caller's end of a generation. */
export type GenerationSink = EventSink & {
  end(finished: Finished): void;
  fail(error: EngineError): void;
};

export type GenerationCallOptions = {
  readonly request: GenerateRequest;
  readonly sink: GenerationSink;
  readonly backend: Backend;
  /** Where the last look at the answer is done. */
  readonly work: Pick<CallerWork, "run">;
  readonly clock: Clock;
  /** Time left when the call came; Infinity without a deadline. */
  readonly deadlineMs: number;
  /** Throws `EngineError` when the node takes no such request now. */
  readonly admit: (model: string) => void;
};

/** How a generation ended, for metrics and the log. Times are milliseconds. */
export type GenerationOutcome = {
  readonly failure: EngineError | undefined;
  readonly finished: Finished | undefined;
  readonly firstDeltaMs: number | undefined;
  /** What the last look at whole answers and arguments has shown, with the request's schemas. */
  readonly checked: CheckedTexts;
  readonly totalMs: number;
  /** From the caller's leaving, or the deadline, to the backend's having let go. */
  readonly cancelMs: number | undefined;
};

/** One call of Generate: the backend's events on their way to the caller, and the ways in which that ends early. */
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
    this.#writer = new EventWriter(sink, batchDelayMs(request), clock);
    // grpc-js' own deadline waits behind messages that a slow reader leaves lying; a slot must not.
    this.#cancelDeadline =
      deadlineMs <= MAX_TIMER_MS
        ? clock.after(Math.max(0, deadlineMs), () => this.stop(new EngineError("DEADLINE", "The deadline has passed.")))
        : () => {};
  }

  /** Whether it waits for its reader, and so asks nothing of the backend. */
  get paused(): boolean {
    return this.#paused;
  }

  /** Ends it with an error that the caller hears at once, whatever the backend does. */
  stop(error: EngineError): void {
    if (!this.#abort(error)) return;
    this.#writer.flush();
    this.#writer.close();
    this.#options.sink.fail(error);
  }

  /** The caller has gone: nobody hears anything any more. */
  leave(): void {
    const { clock, deadlineMs } = this.#options;
    const late = clock.nowMs() - this.#begunMs >= deadlineMs - DEADLINE_TOLERANCE_MS;
    const error = late
      ? new EngineError("DEADLINE", "The deadline has passed.")
      : new EngineError("CANCELLED", "The caller has left.");
    if (this.#abort(error)) this.#writer.close();
  }

  /** From admission to the last event. Never throws. */
  async run(): Promise<GenerationOutcome> {
    const { request, sink, backend, clock, admit } = this.#options;
    const { signal } = this.#stop;
    const writer = this.#writer;
    let finished: Finished | undefined;
    let firstDeltaMs: number | undefined;
    let failure: EngineError | undefined;
    const asked = new AskedTexts(request);
    let checked: CheckedTexts | undefined;
    try {
      admit(request.model);
      for await (const events of backend.generate(request, signal)) {
        if (signal.aborted) break;
        if (firstDeltaMs === undefined && events.some(isDelta)) firstDeltaMs = clock.nowMs() - this.#begunMs;
        asked.see(events);
        const last = lastFinished(events);
        if (last && backend.holdsStrict && asked.whole.some(({ strict }) => strict)) {
          checked = await this.#check(asked.whole, signal);
          if (checked.mismatches.some(({ strict }) => strict)) throw brokenPromise();
          if (signal.aborted) break;
        }
        finished = last ?? finished;
        writer.add(events);
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
    return { failure, finished, firstDeltaMs, checked, totalMs: now - this.#begunMs, cancelMs };
  }

  /** Has texts looked at on another thread. What cannot be looked at is unchecked, and harms no answer. Never rejects. */
  async #check(whole: readonly WholeText[], signal: AbortSignal): Promise<CheckedTexts> {
    if (whole.length === 0) return NOTHING_CHECKED;
    const { work, request } = this.#options;
    try {
      return await work.run("check", whole, { tenant: request.tenant, signal });
    } catch {
      return { ...NOTHING_CHECKED, unchecked: whole.length };
    }
  }

  /** Whether this was what ended it. */
  #abort(error: EngineError): boolean {
    if (this.#over || this.#stop.signal.aborted) return false;
    this.#stoppedMs = this.#options.clock.nowMs();
    this.#stop.abort(error);
    return true;
  }
}

function batchDelayMs({ stream }: GenerateRequest): number {
  const delay = stream?.maxBatchDelay;
  if (!delay) return 0;
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
