import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { ByteBudget } from "./byte-budget.ts";

export type BodyBudgetOptions = {
  /** Bytes of all bodies together. */
  readonly maxBytes: number;
  readonly clock: Pick<Clock, "after">;
};

/** The exhausted budget: that of all bodies together, or that of one tenant. */
const EXCEEDED_BUDGET = { all: "inflight_body_bytes", tenant: "key_body_bytes" } as const;

export type ExceededBudget = (typeof EXCEEDED_BUDGET)[keyof typeof EXCEEDED_BUDGET];

/** The accounting of one request's body, from its announcement until an engine has accepted it. */
export type InflightBody = {
  /**
   * Resolves when a body that announces `bytes` fits, which then count unless they are few; resolves to the exhausted
   * budget if it does not fit within the time limit, or never will. `release` ends the wait.
   */
  reserve(bytes: number): Promise<ExceededBudget | undefined>;
  /** Counts `bytes` that have arrived. Returns the exhausted budget, and counts none, if they do not fit. */
  add(bytes: number): ExceededBudget | undefined;
  /** Releases all bytes of the body. To be called last; further calls have no effect. */
  release(): void;
};

/** A cache in the same memory, which makes space for bodies. */
export type Evictable = {
  readonly bytes: number;
  /** Drops entries of at least `bytes`, or all. */
  free(bytes: number): void;
};

type Waiting = {
  readonly tenant: string;
  readonly bytes: number;
  readonly settle: (lack: ExceededBudget | undefined) => void;
};

/** Bytes below which a body overtakes waiting ones, and counts only its arrived bytes: it is released soon. */
const SMALL_BODY_BYTES = 65_536;

/**
 * Counts the bytes of all request bodies in flight. A body that does not fit waits, unread, in the order of arrival; one
 * that waits for its own tenant's share does not delay others.
 */
export class BodyBudget extends ByteBudget {
  /** Milliseconds for which a body waits. */
  readonly maxWaitMs: number = 10_000;
  readonly #clock: BodyBudgetOptions["clock"];
  readonly #waiting = new Set<Waiting>();
  #cache: Evictable | undefined;

  constructor({ maxBytes, clock }: BodyBudgetOptions) {
    super(maxBytes);
    this.#clock = clock;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Bytes that a cache may take beside the bodies. */
  get free(): number {
    return this.maxBytes - this.bytes;
  }

  /** Makes `cache` yield to bodies: they never wait for it. */
  yields(cache: Evictable): void {
    this.#cache = cache;
  }

  /** Starts a body of `tenant`, which counts no bytes yet. */
  begin(tenant: string): InflightBody {
    let held = 0;
    let arrived = 0;
    let stopWaiting: (() => void) | undefined;
    return {
      reserve: async (bytes) => {
        if (bytes > this.maxBytes) return "inflight_body_bytes";
        const small = bytes < SMALL_BODY_BYTES;
        if ((small || this.#waiting.size === 0) && !this.#lacks(tenant, bytes)) {
          held = small ? 0 : bytes;
          this.take(tenant, held);
          return undefined;
        }
        return new Promise((resolve) => {
          const settle = (lack: ExceededBudget | undefined) => {
            cancelTimer();
            this.#waiting.delete(waiting);
            if (lack === undefined) {
              held = bytes;
              this.take(tenant, bytes);
            }
            resolve(lack);
          };
          const waiting: Waiting = { tenant, bytes, settle };
          const cancelTimer = this.#clock.after(this.maxWaitMs, () => {
            settle(this.#lacks(tenant, bytes) ?? "inflight_body_bytes");
            this.#admit();
          });
          stopWaiting = () => settle("inflight_body_bytes");
          this.#waiting.add(waiting);
          // Earlier ones may wait for their own tenants.
          this.#admit();
        });
      },
      add: (bytes) => {
        const beyond = Math.max(0, arrived + bytes - held);
        const lack = beyond > 0 ? this.#lacks(tenant, beyond) : undefined;
        if (lack) return lack;
        arrived += bytes;
        held += beyond;
        this.take(tenant, beyond);
        return undefined;
      },
      release: () => {
        stopWaiting?.();
        this.take(tenant, -held);
        held = 0;
        this.#admit();
      },
    };
  }

  protected override take(tenant: string, bytes: number): void {
    super.take(tenant, bytes);
    const over = (this.#cache?.bytes ?? 0) - this.free;
    if (bytes > 0 && over > 0) this.#cache?.free(over);
  }

  #lacks(tenant: string, bytes: number): ExceededBudget | undefined {
    const lack = this.lacks(tenant, bytes);
    return lack && EXCEEDED_BUDGET[lack];
  }

  /** Admits waiting bodies that fit now. */
  #admit(): void {
    for (const waiting of this.#waiting) {
      const lack = this.#lacks(waiting.tenant, waiting.bytes);
      // A smaller body must not take the bytes that this one waits for.
      if (lack === "inflight_body_bytes") return;
      if (!lack) waiting.settle(undefined);
    }
  }
}
