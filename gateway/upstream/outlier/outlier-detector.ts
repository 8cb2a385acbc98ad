import type { OutlierOutcome } from "./outlier-outcome.ts";
import type { OutlierSettings } from "./outlier-settings.ts";

export type Ejection = {
  /** The address of the endpoint, `host:port`. */
  readonly address: string;
  /** Whether the endpoint is ejected; false where too many are ejected already. */
  readonly enforced: boolean;
  /** The monotonic milliseconds at which the ejection ends; meaningless where it is not enforced. */
  readonly untilMs: number;
};

type Host = {
  consecutiveFailures: number;
  ejectedUntilMs: number | undefined;
  /** The number of consecutive ejections, by which the next one is longer. */
  ejections: number;
};

/** The time without an ejection after which the number of consecutive ejections decreases by one, in milliseconds. */
const FADE_MS = 5_000;

/**
 * Ejects endpoints of one cluster after consecutive failed calls, each for a while. A passed health check ends no
 * ejection: health may be served while the GPU hangs.
 */
export class OutlierDetector {
  readonly #settings: OutlierSettings;
  readonly #onChange: (address: string) => void;
  readonly #hosts = new Map<string, Host>();
  /** The ends of the ordered ejections, in monotonic milliseconds, by address. */
  #ordered: ReadonlyMap<string, number> = new Map();

  /**
   * `onChange` is called with the address of an endpoint that was ejected, by its calls or by order, or restored
   * manually, but not at the regular end of an ejection.
   */
  constructor(settings: OutlierSettings, onChange: (address: string) => void = () => {}) {
    this.#settings = settings;
    this.#onChange = onChange;
  }

  /** Adds an endpoint that joined the cluster: it counts for the share that may be ejected. */
  add(address: string): void {
    if (!this.#hosts.has(address)) this.#hosts.set(address, newHost());
  }

  /** Removes an endpoint that left the cluster. */
  forget(address: string): void {
    this.#hosts.delete(address);
  }

  /** Returns whether the endpoint is ejected at the monotonic time `nowMs`. */
  isEjected(address: string, nowMs: number): boolean {
    return nowMs < (this.ejectedUntilMs(address) ?? nowMs);
  }

  /**
   * Returns the monotonic milliseconds at which the last ejection of an endpoint ends or ended: then its slow start
   * begins. Undefined for one that was never ejected.
   */
  ejectedUntilMs(address: string): number | undefined {
    const found = this.#hosts.get(address)?.ejectedUntilMs;
    const ordered = this.#ordered.get(address);
    return found === undefined || ordered === undefined ? (found ?? ordered) : Math.max(found, ordered);
  }

  /**
   * Ejects the endpoints at these addresses until the monotonic milliseconds beside each, including those that join
   * later. Earlier ordered ejections not among them end. The limit on the ejected share does not apply: an operator
   * decided.
   */
  setOrdered(untilMs: ReadonlyMap<string, number>, nowMs: number): void {
    const before = this.#ordered;
    this.#ordered = new Map(untilMs);
    for (const [address, endedMs] of before) {
      const host = this.#hosts.get(address);
      // Its slow start begins at the actual end of the ejection.
      if (host && !untilMs.has(address) && endedMs <= nowMs)
        host.ejectedUntilMs = Math.max(endedMs, host.ejectedUntilMs ?? endedMs);
    }
    for (const address of new Set([...before.keys(), ...untilMs.keys()])) {
      if (before.get(address) !== untilMs.get(address)) this.#onChange(address);
    }
  }

  /** Counts the end of a call on an endpoint, and returns the resulting ejection. An unknown address is ignored. */
  report(address: string, outcome: OutlierOutcome, nowMs: number): Ejection | undefined {
    const host = this.#hosts.get(address);
    // Calls from before the ejection that end during it add no information.
    if (!host || outcome === "neutral" || this.isEjected(address, nowMs)) return undefined;
    host.consecutiveFailures = outcome === "failure" ? host.consecutiveFailures + 1 : 0;
    const limit = this.#settings.consecutiveGatewayFailure;
    if (limit === 0 || host.consecutiveFailures < limit) return undefined;
    host.consecutiveFailures = 0;
    return this.#eject(address, host, nowMs);
  }

  /** Restores an endpoint manually, with a clean record; an ordered ejection stays. */
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
    // A higher count would overshoot: fading would then take longer than the ejection was.
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
