import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Event, Progress } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { acceptTimeoutMs, perTryTimeoutMs, type Timeouts } from "./timeouts.ts";

/** A timer later than this, in milliseconds, shows a stalled process: messages get as long again to be read. */
const HELD_UP_MS = 50;

export type Expired = "connect" | "hand_over" | "accept" | "per_try" | "idle" | "inter_token";

export type RequestSize = {
  readonly bytes: number;
  readonly inputTokens: number;
};

/**
 * Watches the progress of a call on an endpoint: connection, acceptance, first delta, and no silence after it. An
 * endpoint whose progress counter advances may take any time to its first delta. One timer fires at the earliest
 * possible limit; for a delta only numbers are written.
 */
export class AttemptTimeouts {
  readonly #clock: Clock;
  readonly #timeouts: Timeouts;
  /** The limit on the hand-over, and again on the wait for the first message after it, in milliseconds. */
  readonly #acceptMs: number;
  /** The limit on the time without progress until the first delta, in milliseconds. */
  readonly #perTryMs: number;
  readonly #connected: () => boolean;
  readonly #onExpired: (limit: Expired) => void;
  readonly #sentMs: number;
  /** The moment at which writing of the message began; undefined while it waits behind others. */
  #begunMs: number | undefined;
  #handedOverMs: number | undefined;
  #acceptedMs: number | undefined;
  #lastSignMs: number;
  #lastDeltaMs: number | undefined;
  #progress: Progress | undefined;
  #movedMs: number | undefined;
  /** Whether the gateway's own client reads slowly, which then causes the endpoint's silence. */
  #held = false;
  #lookMs = 0;
  /** The due time of the limit that was extended because this process was stalled. */
  #graceOf: number | undefined;
  #cancel: () => void = () => {};

  /** Watches a call about to be sent; grpc-js has no time limit for `connected`. */
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

  get workedMs(): number | undefined {
    return this.#acceptedMs === undefined ? undefined : this.#clock.nowMs() - this.#acceptedMs;
  }

  /** From the first message to the latest, in milliseconds: the request may have caused the silence since. */
  get aliveMs(): number | undefined {
    return this.#acceptedMs === undefined ? undefined : this.#lastSignMs - this.#acceptedMs;
  }

  /** Whether the endpoint has last put the request behind others in its queue, so that it did not work on it. */
  get waits(): boolean {
    return this.#lastDeltaMs === undefined && (this.#progress?.queuePosition ?? 0) > 0;
  }

  handOverBegun(): void {
    this.#begunMs = this.#clock.nowMs();
  }

  /** Records that the connection has taken the whole message: from now on the node has to respond. */
  handedOver(): void {
    this.#handedOverMs = this.#clock.nowMs();
  }

  /**
   * Takes the events of one message, and the number of its tokens. Progress that has not advanced is no sign of life: a
   * timer can send it. Tokens are one, whatever holds back their text.
   */
  seen(events: readonly Event[], tokens = 0): void {
    let hasDelta = false;
    let isAlive = tokens > 0;
    for (const { kind } of events) {
      if (kind?.$case === "blockDelta") hasDelta = true;
      // Every progress event is recorded, at any position.
      if (kind?.$case !== "progress" || this.#hasMoved(kind.value)) isAlive = true;
    }
    if (!isAlive) return;
    this.#lastSignMs = this.#clock.nowMs();
    this.#acceptedMs ??= this.#lastSignMs;
    if (hasDelta) this.#lastDeltaMs = this.#lastSignMs;
  }

  /** Takes a message of deltas that is not the call's first one. Runs for every delta. */
  deltas(): void {
    this.#lastSignMs = this.#clock.nowMs();
    this.#lastDeltaMs = this.#lastSignMs;
  }

  /** Suspends all limits, as the gateway's own client reads slowly, until `resume`. */
  hold(): void {
    this.#held = true;
  }

  /** Resumes the limits after `hold`, as if the endpoint's latest message had come now. */
  resume(): void {
    this.#held = false;
    this.#lastSignMs = this.#clock.nowMs();
    if (this.#lastDeltaMs !== undefined) this.#lastDeltaMs = this.#lastSignMs;
  }

  close(): void {
    this.#cancel();
  }

  #hasMoved(now: Progress): boolean {
    const before = this.#progress;
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
      // Once per limit: a process that is always late must not extend it for ever.
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

  /** The timer's delay in milliseconds, at most until the earliest limit that could start meanwhile. */
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

  /** The limits until the first message. A node is not late with a message that it has not received. */
  #untilAccepted(): readonly [Expired, number] {
    const { connectMs, pendingMs } = this.#timeouts;
    if (!this.#connected()) return ["connect", this.#sentMs + connectMs];
    if (this.#handedOverMs !== undefined) return ["accept", this.#handedOverMs + this.#acceptMs];
    if (this.#begunMs !== undefined) return ["hand_over", this.#begunMs + this.#acceptMs];
    return ["hand_over", this.#sentMs + pendingMs];
  }
}
