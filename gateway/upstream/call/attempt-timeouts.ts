import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Event, Progress } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { acceptTimeoutMs, perTryTimeoutMs, type Timeouts } from "./timeouts.ts";

/**
 * The lateness of a look, in milliseconds, from which this process was held up: what the node has said meanwhile may
 * lie unread. It gets as much again to be read.
 */
const HELD_UP_MS = 50;

/** The time limit that a call on an endpoint has gone beyond. */
export type Expired = "connect" | "hand_over" | "accept" | "per_try" | "idle" | "inter_token";

/** The size of a request, with which its time limits grow. */
export type RequestSize = {
  /** The size of the whole request in bytes, roughly. */
  readonly bytes: number;
  /** The rough length of the prompt in tokens. */
  readonly inputTokens: number;
};

/**
 * Watches that an endpoint gets on: that it is connected to, takes the call, that its first delta comes, that it never
 * falls silent. An endpoint whose progress moves may take as long as it needs to its first delta. One timer looks again
 * when the earliest limit could be reached; on the path of a delta only numbers are written.
 */
export class AttemptTimeouts {
  readonly #clock: Clock;
  readonly #timeouts: Timeouts;
  /** The time that handing over may take, and as much again until the first sign of life, in milliseconds. */
  readonly #acceptMs: number;
  /** The time until the first delta in which no progress moves, in milliseconds. */
  readonly #perTryMs: number;
  readonly #connected: () => boolean;
  readonly #onExpired: (limit: Expired) => void;
  readonly #sentMs: number;
  /** The moment at which the message began to be written; undefined while others go before it. */
  #begunMs: number | undefined;
  /** The moment at which the connection had taken the whole message; undefined until then. */
  #handedOverMs: number | undefined;
  #acceptedMs: number | undefined;
  #lastSignMs: number;
  #lastDeltaMs: number | undefined;
  #progress: Progress | undefined;
  /** The moment at which the progress moved last; undefined while none has come. */
  #movedMs: number | undefined;
  /** Whether our own client reads slowly, so that the silence of the endpoint is our doing. */
  #held = false;
  /** The moment at which the next look is due. */
  #lookMs = 0;
  /** The limit that was given more time because this process was held up, by when it was due. */
  #graceOf: number | undefined;
  #cancel: () => void = () => {};

  /**
   * Begins to watch a call that is about to be sent. `connected` says whether the connection of the call stands;
   * the library has no time limit for that.
   */
  constructor(
    clock: Clock,
    timeouts: Timeouts,
    { bytes, inputTokens }: RequestSize,
    connected: () => boolean,
    onExpired: (limit: Expired) => void,
  ) {
    this.#clock = clock;
    this.#timeouts = timeouts;
    this.#acceptMs = acceptTimeoutMs(bytes, timeouts);
    this.#perTryMs = perTryTimeoutMs(inputTokens, timeouts.perTry);
    this.#connected = connected;
    this.#onExpired = onExpired;
    this.#sentMs = clock.nowMs();
    this.#lastSignMs = this.#sentMs;
    this.#sleep(this.#longestWaitMs(Math.min(timeouts.connectMs, this.#acceptMs)));
  }

  /** The time since the endpoint showed its first sign of life, in milliseconds; undefined where it has shown none. */
  get workedMs(): number | undefined {
    return this.#acceptedMs === undefined ? undefined : this.#clock.nowMs() - this.#acceptedMs;
  }

  /**
   * The time from the endpoint's first sign of life to its newest, in milliseconds; undefined where it has shown none.
   * The request that it worked on when it fell silent may be the cause.
   */
  get aliveMs(): number | undefined {
    return this.#acceptedMs === undefined ? undefined : this.#lastSignMs - this.#acceptedMs;
  }

  /** The message begins to be written to the connection. */
  handOverBegun(): void {
    this.#begunMs = this.#clock.nowMs();
  }

  /** The connection has taken the whole message: from now on it is the node's turn to say something. */
  handedOver(): void {
    this.#handedOverMs = this.#clock.nowMs();
  }

  /**
   * Takes the events of one message, and the number of its tokens. It runs on the path of every delta, where the first
   * event says enough. Progress that has not got on is no sign of life: a timer can send it. Tokens are one, whatever
   * holds back the text that they make.
   */
  seen(events: readonly Event[], tokens = 0): void {
    const hasDelta = events.some(isDelta);
    // Every progress is to be remembered, wherever it stands.
    const signs = hasDelta ? events.length : events.filter((event) => this.#isSignOfLife(event)).length;
    if (signs + tokens === 0) return;
    this.#lastSignMs = this.#clock.nowMs();
    this.#acceptedMs ??= this.#lastSignMs;
    if (hasDelta) this.#lastDeltaMs = this.#lastSignMs;
  }

  /** Takes a message of deltas that is not the call's first one. It runs on the path of every delta. */
  deltas(): void {
    this.#lastSignMs = this.#clock.nowMs();
    this.#lastDeltaMs = this.#lastSignMs;
  }

  /** Stops judging the endpoint's silence, as our own client reads slowly: no limit is reached until `goOn`. */
  hold(): void {
    this.#held = true;
  }

  /** Judges the endpoint's silence again after `hold`, as if its newest sign of life had come now. */
  goOn(): void {
    this.#held = false;
    this.#lastSignMs = this.#clock.nowMs();
    if (this.#lastDeltaMs !== undefined) this.#lastDeltaMs = this.#lastSignMs;
  }

  /** Stops watching, as the call is over. No limit is reported afterwards. */
  close(): void {
    this.#cancel();
  }

  #isSignOfLife({ kind }: Event): boolean {
    if (kind?.$case !== "progress") return true;
    const before = this.#progress;
    const now = kind.value;
    this.#progress = now;
    const same = now.step === before?.step && now.queuePosition === before.queuePosition;
    if (before && same && now.prefilledTokens <= before.prefilledTokens) return false;
    this.#movedMs = this.#clock.nowMs();
    return true;
  }

  #sleep(ms: number): void {
    this.#lookMs = this.#clock.nowMs() + ms;
    this.#cancel = this.#clock.after(ms, () => this.#look());
  }

  #look(): void {
    const nowMs = this.#clock.nowMs();
    const [limit, dueMs] = this.#earliest();
    const heldUp = nowMs - this.#lookMs >= HELD_UP_MS && this.#graceOf !== dueMs;
    if (!this.#held && dueMs <= nowMs && heldUp) {
      // Once for each limit: a process that is late all the time must not wait for ever.
      this.#graceOf = dueMs;
      this.#sleep(HELD_UP_MS);
      return;
    }
    if (!this.#held && dueMs <= nowMs) {
      this.#onExpired(limit);
      return;
    }
    const waitMs = this.#longestWaitMs(this.#held ? this.#timeouts.perTryIdleMs : dueMs - nowMs);
    this.#sleep(Math.max(1, waitMs));
  }

  /**
   * Returns how long to sleep, in milliseconds: no longer than until the earliest limit that could begin meanwhile, as
   * one that is shorter than the present one must not end late.
   */
  #longestWaitMs(waitMs: number): number {
    const { perTryIdleMs, interTokenMs } = this.#timeouts;
    if (this.#lastDeltaMs !== undefined && !this.#held) return waitMs;
    if (this.#acceptedMs !== undefined) return Math.min(waitMs, interTokenMs);
    return Math.min(waitMs, this.#acceptMs, perTryIdleMs, interTokenMs, this.#perTryMs);
  }

  #earliest(): readonly [Expired, number] {
    const { perTryIdleMs, interTokenMs } = this.#timeouts;
    if (this.#acceptedMs === undefined) return this.#untilAccepted();
    const idle = ["idle", this.#lastSignMs + perTryIdleMs] as const;
    const next =
      this.#lastDeltaMs === undefined
        ? (["per_try", (this.#movedMs ?? this.#acceptedMs) + this.#perTryMs] as const)
        : (["inter_token", this.#lastDeltaMs + interTokenMs] as const);
    return next[1] < idle[1] ? next : idle;
  }

  /** The limits until the first sign of life. A node is not late with a message that it has not received. */
  #untilAccepted(): readonly [Expired, number] {
    const { connectMs, pendingMs } = this.#timeouts;
    if (!this.#connected()) return ["connect", this.#sentMs + connectMs];
    if (this.#handedOverMs !== undefined) return ["accept", this.#handedOverMs + this.#acceptMs];
    if (this.#begunMs !== undefined) return ["hand_over", this.#begunMs + this.#acceptMs];
    return ["hand_over", this.#sentMs + pendingMs];
  }
}

function isDelta({ kind }: Event): boolean {
  return kind?.$case === "blockDelta";
}
