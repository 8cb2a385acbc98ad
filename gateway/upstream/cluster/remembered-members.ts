import type { Clock } from "../../../deploy/runtime/time/clock.ts";

/** The time for which an endpoint that left as announced may be replaced, in milliseconds: a node may load for an hour. */
const REPLACED_WITHIN_MS = 7_200_000;

/**
 * The members that a cluster has had. Those that left unannounced are lost until as many have joined; those that left as
 * announced or ordered are not, and may be replaced.
 */
export class RememberedMembers {
  readonly #clock: Pick<Clock, "nowMs">;
  #members = 0;
  /** The number that should be there: the present members and the lost ones. */
  #owed = 0;
  /** The monotonic milliseconds at which members left that none has replaced, oldest first. */
  #leftMs: readonly number[] = [];

  constructor(clock: Pick<Clock, "nowMs">) {
    this.#clock = clock;
  }

  /** Follows a change: the number of members now, and how many of the earlier ones joined and left as announced. */
  changed(members: number, joined: number, announced: number): void {
    this.#members = members;
    this.#owed = Math.max(members, this.#owed - announced);
    const nowMs = this.#clock.nowMs();
    const left = [...this.#leftMs, ...Array.from({ length: announced }, () => nowMs)];
    this.#leftMs = left.slice(joined).filter((ms) => nowMs < ms + REPLACED_WITHIN_MS);
  }

  get lost(): number {
    return this.#owed - this.#members;
  }

  /** The number of members that left as announced within the time of a replacement, and that none has replaced. */
  get left(): number {
    const nowMs = this.#clock.nowMs();
    return this.#leftMs.filter((ms) => nowMs < ms + REPLACED_WITHIN_MS).length;
  }
}
