import { waitUnlessAborted } from "../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { Event, GenerateResponse } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { joinedDelta } from "../backends/stream-events.ts";
import type { StreamSink } from "../prefixes/prefix-streams.ts";

const MAX_EVENTS = 32;
/** The most delta text in one message, in bytes; a single delta may be larger. */
const MAX_TEXT_BYTES = 16 * 1024;
/** The pending tokens without an event, such as special tokens, that get a message of their own. */
const MAX_EVENTLESS_TOKENS = 8;
const NO_TOKENS: readonly number[] = [];

export type EventSink = Omit<StreamSink<GenerateResponse>, "end">;

export type EventWriterOptions = {
  /** The longest time that deltas may be held to be batched, in milliseconds; 0 for none. */
  readonly maxDelayMs: number;
  /** The least time between two messages of deltas if `maxDelayMs` is 0, in milliseconds. */
  readonly minGapMs: number;
  readonly sendsTokens: boolean;
};

/**
 * Batches the events of a generation into messages, in order. The output of a step is sent at once, unless the caller
 * allowed a delay, `minGapMs` has not passed, or the reader falls behind: then adjacent deltas of a block are joined.
 * The first delta is never held. A token is sent no later than the first event that it contributed to, so that another
 * node can continue all text that a client has.
 */
export class EventWriter {
  readonly #sink: EventSink;
  readonly #clock: Clock;
  readonly #options: EventWriterOptions;
  #held: Event[] = [];
  #tokens: readonly number[] = NO_TOKENS;
  /** Undefined while `#tokens` is the list of a single step, which is passed on without a copy. */
  #gathered: number[] | undefined;
  #heldBytes = 0;
  #blocked = false;
  #deltaSeen = false;
  #writtenMs = Number.NEGATIVE_INFINITY;
  #cancelTimer: (() => void) | undefined;
  #wake: (() => void) | undefined;

  constructor(sink: EventSink, options: EventWriterOptions, clock: Clock) {
    this.#sink = sink;
    this.#options = options;
    this.#clock = clock;
    sink.onDrain(() => this.#drained());
  }

  add({ events, tokens }: GenerateResponse): void {
    if (this.#options.sendsTokens && tokens.length > 0) this.#gather(tokens);
    const waitMs = this.#waitMs(events);
    if (events.length === 0) {
      if (this.#tokens.length >= MAX_EVENTLESS_TOKENS && !this.#blocked) this.flush();
    } else if (this.#blocked) {
      for (const event of events) this.#merge(event);
    } else if (waitMs > 0) {
      for (const event of events) this.#hold(event);
      if (this.#overfull()) this.flush();
      else this.#cancelTimer ??= this.#clock.after(waitMs, () => this.flush());
    } else if (this.#held.length > 0) {
      for (const event of events) this.#hold(event);
      this.flush();
    } else this.#send(events);
  }

  get full(): boolean {
    return this.#blocked && this.#overfull();
  }

  /** Resolves once the reader has caught up or `signal` is aborted. Never rejects. */
  async writable(signal: AbortSignal): Promise<void> {
    if (!this.#blocked) return;
    await waitUnlessAborted<void>(signal, (wake) => {
      this.#wake = wake;
      return () => {
        this.#wake = undefined;
      };
    });
  }

  flush(): void {
    const events = this.#takeHeld();
    if (events.length > 0) this.#send(events);
    else if (this.#tokens.length > 0) this.#write(events);
  }

  close(): void {
    this.#takeHeld();
    this.#takeTokens();
  }

  #takeHeld(): readonly Event[] {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const events = this.#held;
    this.#held = [];
    this.#heldBytes = 0;
    return events;
  }

  #gather(tokens: readonly number[]): void {
    if (this.#tokens.length === 0) {
      this.#tokens = tokens;
      return;
    }
    this.#gathered ??= [...this.#tokens];
    for (const token of tokens) this.#gathered.push(token);
    this.#tokens = this.#gathered;
  }

  #takeTokens(): readonly number[] {
    const tokens = this.#tokens;
    this.#tokens = NO_TOKENS;
    this.#gathered = undefined;
    return tokens;
  }

  /** Returns how long these events may be held, in milliseconds; 0 or less: not at all. */
  #waitMs(events: readonly Event[]): number {
    const first = !this.#deltaSeen;
    if (first) this.#deltaSeen = events.some(isDelta);
    if (first || !events.every(isDelta)) return 0;
    const { maxDelayMs, minGapMs } = this.#options;
    return maxDelayMs > 0 ? maxDelayMs : this.#writtenMs + minGapMs - this.#clock.nowMs();
  }

  #overfull(): boolean {
    return this.#held.length >= MAX_EVENTS || this.#heldBytes >= MAX_TEXT_BYTES;
  }

  #hold(event: Event): void {
    this.#held.push(event);
    this.#heldBytes += textBytes(event);
  }

  #merge(event: Event): void {
    const last = this.#held.at(-1);
    const joined = last && joinedDelta(last, event);
    if (joined) this.#held.pop();
    this.#held.push(joined ?? event);
    this.#heldBytes += textBytes(event);
  }

  #send(events: readonly Event[]): void {
    let from = 0;
    let bytes = 0;
    for (const [at, event] of events.entries()) {
      const more = textBytes(event);
      if (at > from && (at - from >= MAX_EVENTS || bytes + more > MAX_TEXT_BYTES)) {
        this.#write(events.slice(from, at));
        from = at;
        bytes = 0;
      }
      bytes += more;
    }
    this.#write(from === 0 ? events : events.slice(from));
  }

  #write(events: readonly Event[]): void {
    this.#writtenMs = this.#clock.nowMs();
    if (!this.#sink.write({ events, tokens: this.#takeTokens() })) this.#blocked = true;
  }

  #drained(): void {
    this.#blocked = false;
    this.flush();
    if (!this.#blocked) this.#wake?.();
  }
}

function isDelta({ kind }: Event): boolean {
  return kind?.$case === "blockDelta";
}

function textBytes({ kind }: Event): number {
  return kind?.$case === "blockDelta" ? Buffer.byteLength(kind.value.text) : 0;
}
