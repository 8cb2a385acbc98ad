import type { Clock } from "../../deploy/runtime/time/clock.ts";

/** The bounds of what bodies may take up together, and of how long one of them waits for room. */
export type InflightBodiesOptions = {
  /** The most bytes that all bodies together may take up. */
  readonly maxBytes: number;
  /**
   * The share, from 0 to 1, that the bodies of one tenant may take up of what others leave of these bytes: with 0.5 one
   * tenant takes half, two a third each, and a newcomer always finds room; 1 bounds no tenant. A single body may be larger.
   */
  readonly maxShareOfKey: number;
  /** The longest time that a body waits for room, in milliseconds. */
  readonly maxWaitMs: number;
  /** The clock of the wait for room. */
  readonly clock: Pick<Clock, "after">;
};

/** The room that a body did not find: that of all bodies together, or that of its own tenant. */
export type NoRoom = "inflight_body_bytes" | "key_body_bytes";

/** The room that the body of one request takes up, from its announcement until an engine has it for good. */
export type InflightBody = {
  /**
   * Resolves when there is room for a body that announces `bytes`, which then count unless they are few; to the lack
   * where there is none within the time limit, or never will be. `release` ends the wait.
   */
  reserve(bytes: number): Promise<NoRoom | undefined>;
  /** Counts `bytes` more that have arrived. Returns the lack, and counts nothing, where they find no room. */
  add(bytes: number): NoRoom | undefined;
  /** Gives back all that the body takes up. It is to be called last, and may be called again. */
  release(): void;
};

/** A body that waits for room. */
type Waiting = { readonly bytes: number; readonly settle: (lack: NoRoom | undefined) => void };

/**
 * The size in bytes below which a body passes those that wait, where there is room for it, and takes up what has
 * arrived of it and not what was announced: it is gone again at once.
 */
const SMALL_BODY_BYTES = 65_536;

/**
 * Counts the bytes of all request bodies on their way. A body that finds no room waits, unread, while others go: first
 * come, first served within a tenant, and tenants in turn. No tenant fills more than its share of what others leave.
 */
export class InflightBodies {
  readonly #options: InflightBodiesOptions;
  readonly #bytesOf = new Map<string, number>();
  /** The bodies that wait, by tenant; the tenant that was served last is the last. No list is empty. */
  readonly #waiting = new Map<string, Waiting[]>();
  #bytes = 0;

  constructor(options: InflightBodiesOptions) {
    this.#options = options;
  }

  /** The most bytes that all bodies together may take up. */
  get maxBytes(): number {
    return this.#options.maxBytes;
  }

  /** The bytes that all bodies together take up now. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The number of bodies that wait for room. */
  get waiting(): number {
    let waiting = 0;
    for (const bodies of this.#waiting.values()) waiting += bodies.length;
    return waiting;
  }

  /** Starts a body of `tenant`, which takes up nothing yet. */
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
    // Those before it may wait for their own tenants.
    this.#serve();
    return { over, stop };
  }

  #leave(tenant: string, waiting: Waiting): void {
    const left = this.#waiting.get(tenant)?.filter((other) => other !== waiting) ?? [];
    if (left.length > 0) this.#waiting.set(tenant, left);
    else this.#waiting.delete(tenant);
  }

  /** Lets in whoever finds room now, the tenants in turn. Who waits for its own tenant holds up nobody else. */
  #serve(): void {
    for (let served = true; served; ) {
      served = false;
      for (const [tenant, [first]] of [...this.#waiting]) {
        const lack = first && this.#lacks(tenant, first.bytes);
        // A smaller body further behind must not take the room that this one waits for.
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
    // The next turn is another tenant's.
    this.#waiting.delete(tenant);
    this.#waiting.set(tenant, left);
  }
}
