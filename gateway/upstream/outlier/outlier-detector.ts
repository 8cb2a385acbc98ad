import type { OutlierOutcome } from "./outlier-outcome.ts";
import type { OutlierSettings } from "./outlier-settings.ts";

/** An endpoint that was found to be an outlier. */
export type Ejection = {
  /** The address of the endpoint, `host:port`. */
  readonly address: string;
  /** Whether the endpoint is ejected; false where too many are ejected already. */
  readonly enforced: boolean;
  /**
   * The moment at which the ejection ends, in milliseconds of the monotonic clock; without meaning where it is not
   * enforced.
   */
  readonly untilMs: number;
};

type Host = {
  consecutiveFailures: number;
  ejectedUntilMs: number | undefined;
  /** The number of ejections in a row, by which the next one is longer. */
  ejections: number;
};

/** The time without an ejection after which one of the ejections in a row no longer counts, in milliseconds. */
const FADE_MS = 5_000;

/**
 * Ejects endpoints of one cluster whose calls fail in a row, each for a while. A passed health check ends no ejection:
 * health may be served while the GPU hangs.
 */
export class OutlierDetector {
  readonly #settings: OutlierSettings;
  readonly #onChange: (address: string) => void;
  readonly #hosts = new Map<string, Host>();
  /** The ends of the ejections that operators have ordered, in monotonic milliseconds, by address. */
  #ordered: ReadonlyMap<string, number> = new Map();

  /**
   * Makes a detector for one cluster. `onChange` is called with the address of an endpoint that was ejected, by its calls
   * or by order, or put back by hand, not when its ejection has lasted long enough.
   */
  constructor(settings: OutlierSettings, onChange: (address: string) => void = () => {}) {
    this.#settings = settings;
    this.#onChange = onChange;
  }

  /** Takes in an endpoint that joined the cluster: it counts for the share that may be ejected. */
  add(address: string): void {
    if (!this.#hosts.has(address)) this.#hosts.set(address, newHost());
  }

  /** Forgets an endpoint that left the cluster. */
  forget(address: string): void {
    this.#hosts.delete(address);
  }

  /** Returns whether the endpoint is ejected at `nowMs`, in milliseconds of the monotonic clock. */
  isEjected(address: string, nowMs: number): boolean {
    return nowMs < (this.ejectedUntilMs(address) ?? nowMs);
  }

  /**
   * Returns when the last ejection of an endpoint ends or ended, in milliseconds of the monotonic clock: then its slow
   * start begins. Undefined for one that was never ejected.
   */
  ejectedUntilMs(address: string): number | undefined {
    const found = this.#hosts.get(address)?.ejectedUntilMs;
    const ordered = this.#ordered.get(address);
    return found === undefined || ordered === undefined ? (found ?? ordered) : Math.max(found, ordered);
  }

  /**
   * Ejects the endpoints at these addresses until the moment beside each, in milliseconds of the monotonic clock, those
   * that join later included. Ejections by earlier orders that are not among them end. No share that may be ejected
   * counts here: whoever orders it knows why.
   */
  setOrdered(untilMs: ReadonlyMap<string, number>, nowMs: number): void {
    const before = this.#ordered;
    this.#ordered = new Map(untilMs);
    for (const [address, endedMs] of before) {
      const host = this.#hosts.get(address);
      // Its slow start goes by the end that it came to.
      if (host && !untilMs.has(address) && endedMs <= nowMs)
        host.ejectedUntilMs = Math.max(endedMs, host.ejectedUntilMs ?? endedMs);
    }
    for (const address of new Set([...before.keys(), ...untilMs.keys()])) {
      if (before.get(address) !== untilMs.get(address)) this.#onChange(address);
    }
  }

  /**
   * Counts how a call on an endpoint ended, and returns the ejection that it led to. An address that was never added is
   * ignored.
   */
  report(address: string, outcome: OutlierOutcome, nowMs: number): Ejection | undefined {
    const host = this.#hosts.get(address);
    // Calls from before its ejection that end only now say nothing new.
    if (!host || outcome === "neutral" || this.isEjected(address, nowMs)) return undefined;
    host.consecutiveFailures = outcome === "failure" ? host.consecutiveFailures + 1 : 0;
    const limit = this.#settings.consecutiveGatewayFailure;
    if (limit === 0 || host.consecutiveFailures < limit) return undefined;
    host.consecutiveFailures = 0;
    return this.#eject(address, host, nowMs);
  }

  /** Puts an endpoint back by hand, with a clean record; an ordered ejection stays. */
  uneject(address: string): void {
    if (!this.#hosts.has(address)) return;
    this.#hosts.set(address, newHost());
    this.#onChange(address);
  }

  #eject(address: string, host: Host, nowMs: number): Ejection {
    if (!this.#mayEject(nowMs)) return { address, enforced: false, untilMs: nowMs };
    const { baseEjectionTimeMs, maxEjectionTimeMs } = this.#settings;
    // As in Envoy, the longest time is never below the base time.
    const longestMs = Math.max(baseEjectionTimeMs, maxEjectionTimeMs);
    const faded = Math.floor((nowMs - (host.ejectedUntilMs ?? nowMs)) / FADE_MS);
    // A longer count would only overshoot: fading would then take longer than the ejection was.
    host.ejections = Math.min(Math.max(0, host.ejections - faded) + 1, Math.ceil(longestMs / baseEjectionTimeMs));
    host.ejectedUntilMs = nowMs + Math.min(baseEjectionTimeMs * host.ejections, longestMs);
    this.#onChange(address);
    return { address, enforced: true, untilMs: host.ejectedUntilMs };
  }

  #mayEject(nowMs: number): boolean {
    const out = [...this.#hosts.keys()].filter((address) => this.isEjected(address, nowMs)).length;
    return out === 0 || ((out + 1) * 100) / this.#hosts.size <= this.#settings.maxEjectionPercent;
  }
}

function newHost(): Host {
  return { consecutiveFailures: 0, ejectedUntilMs: undefined, ejections: 0 };
}
