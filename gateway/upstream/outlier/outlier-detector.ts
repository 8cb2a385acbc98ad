import type { OutlierOutcome } from "./outlier-outcome.ts";
import { byFailurePercentage, bySuccessRate, type CallCounts } from "./outlier-rates.ts";
import type { OutlierSettings } from "./outlier-settings.ts";

/** The rule that found an outlier, in the words of Envoy's statistics. */
export type EjectionType =
  | "consecutive_gateway_failure"
  | "consecutive_local_origin_failure"
  | "failure_percentage"
  | "success_rate";

/** An endpoint that was found to be an outlier. */
export type Ejection = {
  /** The address of the endpoint, `host:port`. */
  readonly address: string;
  /** The rule that found the endpoint. */
  readonly type: EjectionType;
  /** Whether the endpoint is ejected; false where too many are ejected already. */
  readonly enforced: boolean;
  /**
   * The moment at which the ejection ends, in milliseconds of the monotonic clock; without meaning where it is not
   * enforced.
   */
  readonly untilMs: number;
};

type Origin = "external" | "local";
const ORIGINS: readonly Origin[] = ["external", "local"];

type Tally = { consecutive: number; successes: number; failures: number };

type Host = {
  /**
   * The calls of the interval. Wrong answers and failures to answer are counted apart, as with Envoy's
   * `split_external_local_origin_errors`.
   */
  readonly tallies: Readonly<Record<Origin, Tally>>;
  ejectedUntilMs: number | undefined;
  /** The number of ejections in a row, by which the next one is longer; it falls while the host does well. */
  multiplier: number;
};

/**
 * Judges the endpoints of one cluster by the calls on them: who does worse than it should is taken out for a while, and
 * then tried again. A passed health check ends no ejection: health may be served while the GPU hangs.
 */
export class OutlierDetector {
  readonly #settings: OutlierSettings;
  readonly #random: () => number;
  readonly #onChange: (address: string) => void;
  readonly #hosts = new Map<string, Host>();
  /** The ends of the ejections that operators have ordered, in monotonic milliseconds, by address. */
  #ordered: ReadonlyMap<string, number> = new Map();

  /**
   * Makes a detector for one cluster. `random` gives numbers that are even over [0, 1); `onChange` is called with the
   * address of an endpoint that was ejected, by its calls or by order, or put back by hand, not when its ejection has
   * lasted long enough.
   */
  constructor(settings: OutlierSettings, random: () => number, onChange: (address: string) => void = () => {}) {
    this.#settings = settings;
    this.#random = random;
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
    // It was reached, and answered: as far as that goes a wrong answer is a success, too.
    if (outcome !== "local_failure") succeeded(host.tallies.local);
    if (outcome === "success") {
      succeeded(host.tallies.external);
      return undefined;
    }
    const origin: Origin = outcome === "external_failure" ? "external" : "local";
    const tally = host.tallies[origin];
    tally.failures += 1;
    tally.consecutive += 1;
    const { consecutiveGatewayFailure, consecutiveLocalOriginFailure } = this.#settings;
    const limit = origin === "external" ? consecutiveGatewayFailure : consecutiveLocalOriginFailure;
    if (limit === 0 || tally.consecutive < limit) return undefined;
    tally.consecutive = 0;
    const type = origin === "external" ? "consecutive_gateway_failure" : "consecutive_local_origin_failure";
    return this.#eject(address, host, type, nowMs);
  }

  /**
   * Judges the rates of the interval that is over, and returns the ejections that they led to. It is to be called every
   * `intervalMs`.
   */
  tick(nowMs: number): readonly Ejection[] {
    const ejections: Ejection[] = [];
    const within = [...this.#hosts].filter(([address]) => !this.isEjected(address, nowMs));
    for (const [, host] of within) host.multiplier = Math.max(0, host.multiplier - 1);
    for (const origin of ORIGINS) {
      const counts = within.map(([address, { tallies }]): CallCounts => ({ address, ...tallies[origin] }));
      for (const [type, addresses] of [
        ["success_rate", bySuccessRate(counts, this.#settings.successRate)],
        ["failure_percentage", byFailurePercentage(counts, this.#settings.failurePercentage)],
      ] as const) {
        for (const address of addresses) {
          const host = this.#hosts.get(address);
          if (host && !this.isEjected(address, nowMs)) ejections.push(this.#eject(address, host, type, nowMs));
        }
      }
    }
    for (const host of this.#hosts.values()) clearRates(host);
    return ejections;
  }

  /** Puts an endpoint back by hand, with a clean record; an ordered ejection stays. */
  uneject(address: string): void {
    if (!this.#hosts.has(address)) return;
    this.#hosts.set(address, newHost());
    this.#onChange(address);
  }

  #eject(address: string, host: Host, type: EjectionType, nowMs: number): Ejection {
    if (!this.#mayEject(nowMs)) return { address, type, enforced: false, untilMs: nowMs };
    const { baseEjectionTimeMs, maxEjectionTimeMs, maxEjectionTimeJitterMs } = this.#settings;
    host.multiplier += 1;
    // As in Envoy, the longest time is never below the base time.
    const longestMs = Math.max(baseEjectionTimeMs, maxEjectionTimeMs);
    const ejectionMs = Math.min(baseEjectionTimeMs * host.multiplier, longestMs);
    host.ejectedUntilMs = nowMs + ejectionMs + this.#random() * maxEjectionTimeJitterMs;
    // A longer count would only overshoot: fading would then take longer than the ejection was.
    host.multiplier = Math.min(host.multiplier, Math.ceil(longestMs / baseEjectionTimeMs));
    for (const origin of ORIGINS) host.tallies[origin].consecutive = 0;
    clearRates(host);
    this.#onChange(address);
    return { address, type, enforced: true, untilMs: host.ejectedUntilMs };
  }

  #mayEject(nowMs: number): boolean {
    const { maxEjectionPercent, alwaysEjectOneHost } = this.#settings;
    const out = [...this.#hosts.keys()].filter((address) => this.isEjected(address, nowMs)).length;
    if (out === 0 && alwaysEjectOneHost) return true;
    return ((out + 1) * 100) / this.#hosts.size <= maxEjectionPercent;
  }
}

function succeeded(tally: Tally): void {
  tally.consecutive = 0;
  tally.successes += 1;
}

function newHost(): Host {
  const tally = () => ({ consecutive: 0, successes: 0, failures: 0 });
  return { tallies: { external: tally(), local: tally() }, ejectedUntilMs: undefined, multiplier: 0 };
}

function clearRates({ tallies }: Host): void {
  for (const origin of ORIGINS) {
    tallies[origin].successes = 0;
    tallies[origin].failures = 0;
  }
}
