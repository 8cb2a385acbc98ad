import type { Clock } from "../../deploy/runtime/time/clock.ts";

export type InflightBodiesOptions = {
  /** Bytes of all bodies together. */
  readonly maxBytes: number;
  /**
   * Share, from 0 to 1, of the free bytes that the bodies of one tenant may take: with 0.5 one tenant takes half, two a
   * third each, and a new tenant always finds room; 1 bounds no tenant. A single body may be larger.
   */
  readonly maxShareOfKey: number;
  /** Longest wait of a body, in milliseconds. */
  readonly maxWaitMs: number;
  readonly clock: Pick<Clock, "after">;
};

/** The exhausted budget: that of all bodies together, or that of one tenant. */
export type NoRoom = "inflight_body_bytes" | "key_body_bytes";

/** The accounting of one request's body, from its announcement until an engine has accepted it. */
export type InflightBody = {
  /**
   * Resolves when a body that announces `bytes` fits, which then count unless they are few; resolves to the exhausted
   * budget if it does not fit within the time limit, or never will. `release` ends the wait.
   */
  reserve(bytes: number): Promise<NoRoom | undefined>;
  /** Counts `bytes` that have arrived. Returns the exhausted budget, and counts none, if they do not fit. */
  add(bytes: number): NoRoom | undefined;
  /** Releases all bytes of the body. To be called last; further calls have no effect. */
  release(): void;
};

type Waiting = { readonly bytes: number; readonly settle: (lack: NoRoom | undefined) => void };

/**
 * Size in bytes below which a body overtakes waiting ones if it fits, and counts only its arrived bytes, not the
 * announced ones: it is released soon.
 */
const SMALL_BODY_BYTES = 65_536;

/**
 * Counts the bytes of all request bodies in flight. A body that does not fit waits, unread: first come, first served
 * within a tenant, and round robin between tenants. No tenant takes more than its share of the free bytes.
 */
export class InflightBodies {
  readonly #options: InflightBodiesOptions;
  readonly #bytesOf = new Map<string, number>();
  /** Waiting bodies by tenant; the tenant that was served last is the last. No list is empty. */
  readonly #waiting = new Map<string, Waiting[]>();
  #bytes = 0;

  constructor(options: InflightBodiesOptions) {
    this.#options = options;
  }

  get maxBytes(): number {
    return this.#options.maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get waiting(): number {
    let waiting = 0;
    for (const bodies of this.#waiting.values()) waiting += bodies.length;
    return waiting;
  }

  /** Starts a body of `tenant`, which counts no bytes yet. */
  begin(tenant: string): InflightBody {
    let held = 0;
    let arrived = 0;
    let stopWaiting = () => {};
    const take = (bytes: number) => {
      held += bytes;
      this.#take(tenant, bytes);
    };
    return {
      reserve: async (bytes) => {
        if (bytes > this.#options.maxBytes) return "inflight_body_bytes";
        const small = bytes < SMALL_BODY_BYTES;
        if ((small || this.#waiting.size === 0) && !this.#lacks(tenant, bytes)) {
          if (!small) take(bytes);
          return undefined;
        }
        const { over, stop } = this.#wait(tenant, bytes, take);
        stopWaiting = stop;
        return over;
      },
      add: (bytes) => {
        const beyond = Math.max(0, arrived + bytes - held);
        const lack = beyond > 0 ? this.#lacks(tenant, beyond) : undefined;
        if (lack) return lack;
        arrived += bytes;
        take(beyond);
        return undefined;
      },
      release: () => {
        stopWaiting();
        this.#take(tenant, -held);
        held = 0;
        this.#serve();
      },
    };
  }

  #take(tenant: string, bytes: number): void {
    this.#bytes += bytes;
    const ofTenant = (this.#bytesOf.get(tenant) ?? 0) + bytes;
    if (ofTenant > 0) this.#bytesOf.set(tenant, ofTenant);
    else this.#bytesOf.delete(tenant);
  }

  #lacks(tenant: string, bytes: number): NoRoom | undefined {
    const { maxBytes, maxShareOfKey } = this.#options;
    const ofTenant = this.#bytesOf.get(tenant) ?? 0;
    const leftByOthers = maxBytes - (this.#bytes - ofTenant);
    const share = maxShareOfKey * leftByOthers;
    if (maxShareOfKey < 1 && ofTenant > 0 && ofTenant + bytes > share) return "key_body_bytes";
    return this.#bytes + bytes > maxBytes ? "inflight_body_bytes" : undefined;
  }

  #wait(tenant: string, bytes: number, take: (bytes: number) => void) {
    const { clock, maxWaitMs } = this.#options;
    let stop = () => {};
    const over = new Promise<NoRoom | undefined>((resolve) => {
      const settle = (lack: NoRoom | undefined) => {
        cancelTimer();
        this.#leave(tenant, waiting);
        if (lack === undefined) take(bytes);
        resolve(lack);
      };
      const waiting: Waiting = { bytes, settle };
      stop = () => settle("inflight_body_bytes");
      const cancelTimer = clock.after(maxWaitMs, () => {
        settle(this.#lacks(tenant, bytes) ?? "inflight_body_bytes");
        this.#serve();
      });
      const ofTenant = this.#waiting.get(tenant);
      if (ofTenant) ofTenant.push(waiting);
      else this.#waiting.set(tenant, [waiting]);
    });
    // Earlier ones may wait for their own tenants.
    this.#serve();
    return { over, stop };
  }

  #leave(tenant: string, waiting: Waiting): void {
    const left = this.#waiting.get(tenant)?.filter((other) => other !== waiting) ?? [];
    if (left.length > 0) this.#waiting.set(tenant, left);
    else this.#waiting.delete(tenant);
  }

  /**
   * Admits waiting bodies that fit now, round robin between tenants. A body that waits for its own tenant does not
   * block other tenants.
   */
  #serve(): void {
    for (let served = true; served; ) {
      served = false;
      for (const [tenant, [first]] of [...this.#waiting]) {
        const lack = first && this.#lacks(tenant, first.bytes);
        // A smaller body must not take the bytes that this one waits for.
        if (lack === "inflight_body_bytes") return;
        if (!first || lack) continue;
        this.#serveNow(tenant, first);
        served = true;
      }
    }
  }

  #serveNow(tenant: string, first: Waiting): void {
    first.settle(undefined);
    const left = this.#waiting.get(tenant);
    if (!left) return;
    // The next turn belongs to another tenant.
    this.#waiting.delete(tenant);
    this.#waiting.set(tenant, left);
  }
}
