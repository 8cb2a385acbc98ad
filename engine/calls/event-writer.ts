import { waitUnlessAborted } from "../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { Event, GenerateResponse } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { joinedDelta } from "../backends/stream-events.ts";

/** The most events in one message. */
const MAX_EVENTS = 32;
/** The most text in the deltas of one message, in bytes; a single delta may be larger. */
const MAX_TEXT_BYTES = 16 * 1024;
/** The tokens behind which no event has come yet, such as those of a mark, that are told in a message of their own. */
const MAX_UNTOLD_TOKENS = 8;
const NO_TOKENS: readonly number[] = [];

/** Takes the messages of a generation. */
export type EventSink = {
  /** Sends a message. Returns false when the reader does not keep up; the message is on its way all the same. */
  write(message: GenerateResponse): boolean;
  /** Calls `listener` each time the reader has caught up after `write` returned false. */
  onDrain(listener: () => void): void;
};

/** The settings by which events are put into messages. */
export type EventWriterOptions = {
  /** The time for which deltas may be held to travel together, in milliseconds; 0 for none. */
  readonly maxDelayMs: number;
  /**
   * The least time between two messages of deltas where none may be held otherwise, in milliseconds: deltas that come
   * sooner travel together at its end. 0 sends each at once.
   */
  readonly minGapMs: number;
  /** Whether the messages carry the tokens behind the events. */
  readonly tellsTokens: boolean;
};

/**
 * Puts the events of a generation into messages, in order. What a step produced goes out at once, unless the caller
 * allowed a delay, the message before has only just gone, or the reader does not keep up: then it is held, and for a slow
 * reader the adjacent deltas of a block are joined. The first delta is never held. Tokens are told in the message of the
 * first event behind them, never later: so whoever has text has the tokens with which another node makes it again.
 */
export class EventWriter {
  readonly #sink: EventSink;
  readonly #clock: Clock;
  readonly #maxDelayMs: number;
  readonly #minGapMs: number;
  readonly #tellsTokens: boolean;
  #held: Event[] = [];
  /** The tokens that are not told yet. */
  #tokens: readonly number[] = NO_TOKENS;
  /** The same where they are of several steps; undefined where they are still the list of one step. */
  #gathered: number[] | undefined;
  #heldBytes = 0;
  #blocked = false;
  #deltaSeen = false;
  #writtenMs = Number.NEGATIVE_INFINITY;
  #cancelTimer: (() => void) | undefined;
  #wake: (() => void) | undefined;

  /** Makes a writer to `sink`, of whom it hears when the reader has caught up. */
  constructor(sink: EventSink, { maxDelayMs, minGapMs, tellsTokens }: EventWriterOptions, clock: Clock) {
    this.#sink = sink;
    this.#maxDelayMs = maxDelayMs;
    this.#minGapMs = minGapMs;
    this.#tellsTokens = tellsTokens;
    this.#clock = clock;
    sink.onDrain(() => this.#drained());
  }

  /** Sends what one step produced, or holds it while the reader is behind or a delay is allowed. */
  add({ events, tokens }: GenerateResponse): void {
    if (this.#tellsTokens && tokens.length > 0) this.#gather(tokens);
    const waitMs = this.#waitMs(events);
    if (events.length === 0) {
      if (this.#tokens.length >= MAX_UNTOLD_TOKENS && !this.#blocked) this.flush();
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

  /** Whether the reader is so far behind that nothing more should be produced for it. */
  get full(): boolean {
    return this.#blocked && this.#overfull();
  }

  /** Resolves once the reader has caught up, or as soon as `signal` is aborted. Never rejects. */
  async room(signal: AbortSignal): Promise<void> {
    if (!this.#blocked) return;
    await waitUnlessAborted<void>(signal, (wake) => {
      this.#wake = wake;
      return () => {
        this.#wake = undefined;
      };
    });
  }

  /** Sends the held events and tokens, whether or not the reader keeps up. */
  flush(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const events = this.#held;
    this.#held = [];
    this.#heldBytes = 0;
    if (events.length > 0) this.#send(events);
    else if (this.#tokens.length > 0) this.#write(events);
  }

  /** Drops the held events, and stops the timer that would have sent them: the sink takes no more. */
  close(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#held = [];
    this.#heldBytes = 0;
    this.#takeTokens();
  }

  /** Takes the tokens of a step. Those of nearly every step leave with it, as the list that they came in. */
  #gather(tokens: readonly number[]): void {
    if (this.#tokens.length === 0) {
      this.#tokens = tokens;
      return;
    }
    this.#gathered ??= [...this.#tokens];
    for (const token of tokens) this.#gathered.push(token);
    this.#tokens = this.#gathered;
  }

  /** Returns the tokens that are not told yet, and has them no more. */
  #takeTokens(): readonly number[] {
    const tokens = this.#tokens;
    this.#tokens = NO_TOKENS;
    this.#gathered = undefined;
    return tokens;
  }

  /** Returns for how long these events may be held, in milliseconds; 0 or less where they may not. */
  #waitMs(events: readonly Event[]): number {
    const first = !this.#deltaSeen;
    if (first) this.#deltaSeen = events.some(isDelta);
    if (first || !events.every(isDelta)) return 0;
    return this.#maxDelayMs > 0 ? this.#maxDelayMs : this.#writtenMs + this.#minGapMs - this.#clock.nowMs();
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
    if (!joined) {
      this.#hold(event);
      return;
    }
    this.#held[this.#held.length - 1] = joined;
    this.#heldBytes += textBytes(event);
  }

  #send(events: readonly Event[]): void {
    if (events.length === 1) {
      this.#write(events);
      return;
    }
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
