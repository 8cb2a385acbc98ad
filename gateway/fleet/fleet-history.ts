import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { percentile } from "../stats/first-token-times.ts";

/** Milliseconds between two readings of the counts. */
const INTERVAL_MS = 2_000;
/** Milliseconds per point of the charts. */
export const POINT_MS = 10_000;
/** An hour of points. */
const POINTS = 360;
/** Points over which recent times to first token are computed: a minute. */
const RECENT_POINTS = 6;

/** Counts of one model since the process started. */
export type ModelCounts = {
  readonly model: string;
  /** Running answers. */
  readonly active: number;
  /** Requests waiting for an endpoint. */
  readonly queued: number;
  /** Completed requests. */
  readonly requests: number;
  /** Requests that failed for a reason of the service. */
  readonly errors: number;
  /** Deltas from engines, which stand for tokens. */
  readonly deltas: number;
  /** First tokens by latency: index i counts those below `FIRST_TOKEN_BOUNDS_MS[i]`. */
  readonly firstTokenCounts: readonly number[];
  /** Prompt tokens of requests whose engine reported cached tokens. */
  readonly promptTokens: number;
  /** Of these, tokens expected in caches. */
  readonly expectedTokens: number;
  /** Of these, cached tokens. */
  readonly cachedTokens: number;
};

/** Counts of the gateway since its start. */
export type GatewayCounts = {
  /** CPU time of the process, in milliseconds. */
  readonly cpuMs: number;
  readonly models: readonly ModelCounts[];
  /** Requests that ended before their model was known, and those of them that failed for a reason of the service. */
  readonly withoutModel: Pick<ModelCounts, "requests" | "errors">;
  /** Deltas by address of the node. */
  readonly nodeDeltas: ReadonlyMap<string, number>;
};

/** Differences of counts between two readings or over a point, of one model or of all. */
export type Traffic = Omit<ModelCounts, "model" | "active" | "queued"> & {
  /** Milliseconds. */
  readonly spanMs: number;
  /** CPU time of the gateway, in milliseconds; 0 for one model, because it cannot be divided between models. */
  readonly cpuMs: number;
};

/** One point of the charts: all models or one, over ten seconds. Unknown values are undefined. */
export type FleetPoint = {
  /** End of the span, in milliseconds since the epoch. */
  readonly atMs: number;
  readonly requestsPerSecond: number;
  readonly errorsPerSecond: number;
  /** Counted as deltas. */
  readonly tokensPerSecond: number;
  /** Median time to first token, in milliseconds. */
  readonly p50Ms: number | undefined;
  /** 95th percentile of the time to first token, in milliseconds. */
  readonly p95Ms: number | undefined;
  /** Share of prompt tokens expected in caches, from 0 to 1. */
  readonly expectedShare: number | undefined;
  /** Share of cached prompt tokens, from 0 to 1. */
  readonly cachedShare: number | undefined;
  /** Waiting requests at the end of the span. */
  readonly queued: number;
  /** Running answers at the end of the span. */
  readonly active: number;
  /** CPU time of the gateway per delta, in milliseconds; undefined for one model. */
  readonly cpuMsPerDelta: number | undefined;
};

const NOTHING: Traffic = {
  spanMs: 0,
  requests: 0,
  errors: 0,
  deltas: 0,
  firstTokenCounts: [],
  promptTokens: 0,
  expectedTokens: 0,
  cachedTokens: 0,
  cpuMs: 0,
};

/** Reads the counts of this gateway every two seconds and keeps the last hour in a bounded number of points. */
export class FleetHistory {
  readonly #counts: () => GatewayCounts;
  readonly #clock: Clock;
  /** Points by model; "" stands for all models together. */
  #points: ReadonlyMap<string, readonly FleetPoint[]> = new Map();
  #before: { readonly counts: GatewayCounts; readonly atMs: number } | undefined;
  #newest: ReadonlyMap<string, Traffic> = new Map();
  /** Tokens per second of each node, by address. */
  #nodes: ReadonlyMap<string, number> = new Map();
  /** Traffic by model: of the current point, then of the points of the last minute. */
  #spans: readonly ReadonlyMap<string, Traffic>[] = [new Map()];
  #cancel = () => {};

  /** Reads `counts` now, and periodically until `close`. `clock` also dates the points. */
  constructor(counts: () => GatewayCounts, clock: Clock) {
    this.#counts = counts;
    this.#clock = clock;
    this.#read();
  }

  get counts(): GatewayCounts {
    return this.#counts();
  }

  /** Returns the points of the last hour, oldest first, of one model or, as "", of all together. */
  points(model: string): readonly FleetPoint[] {
    return this.#points.get(model) ?? [];
  }

  /** Returns the traffic between the latest two readings, of one model or, as "", of all together. */
  newest(model: string): Traffic {
    return this.#newest.get(model) ?? NOTHING;
  }

  /** Returns the tokens per second of a node between the latest two readings; undefined before the second one. */
  nodeTokensPerSecond(address: string): number | undefined {
    return this.#nodes.get(address);
  }

  /**
   * Returns percentiles of the time to first token in the last minute, for these shares, of one model or, as "", of
   * all.
   */
  recentFirstTokens(model: string, shares: readonly number[]): readonly (number | undefined)[] {
    const { firstTokenCounts } = sumOf(this.#spans.map((span) => span.get(model) ?? NOTHING));
    return shares.map((share) => percentile(firstTokenCounts, share));
  }

  close(): void {
    this.#cancel();
  }

  #read(): void {
    const counts = this.#counts();
    const atMs = this.#clock.nowMs();
    if (this.#before) this.#add(counts, this.#before.counts, atMs - this.#before.atMs);
    this.#before = { counts, atMs };
    this.#cancel = this.#clock.after(INTERVAL_MS, () => this.#read());
  }

  #add(counts: GatewayCounts, before: GatewayCounts, spanMs: number): void {
    this.#newest = trafficBetween(before, counts, spanMs);
    this.#nodes = nodeRates(before.nodeDeltas, counts.nodeDeltas, spanMs);
    const [span = new Map(), ...older] = this.#spans;
    const summed = new Map(span);
    for (const [name, traffic] of this.#newest) summed.set(name, sumOf([summed.get(name) ?? NOTHING, traffic]));
    this.#spans = [summed, ...older];
    if ((summed.get("")?.spanMs ?? 0) < POINT_MS) return;
    const wallMs = this.#clock.wallMs();
    const pointsOf = (name: string, traffic: Traffic) =>
      [...this.points(name), pointOf(name, traffic, counts.models, wallMs)].slice(-POINTS);
    this.#points = new Map([...summed].map(([name, traffic]) => [name, pointsOf(name, traffic)]));
    this.#spans = [new Map(), ...this.#spans].slice(0, RECENT_POINTS + 1);
  }
}

/** Returns the traffic of each model, and of all models together as "". */
function trafficBetween(before: GatewayCounts, counts: GatewayCounts, spanMs: number): ReadonlyMap<string, Traffic> {
  const found = new Map<string, Traffic>();
  for (const model of counts.models) {
    const old = before.models.find((one) => one.model === model.model);
    if (!old) continue;
    found.set(model.model, {
      spanMs,
      requests: model.requests - old.requests,
      errors: model.errors - old.errors,
      deltas: model.deltas - old.deltas,
      firstTokenCounts: model.firstTokenCounts.map((count, at) => count - (old.firstTokenCounts[at] ?? 0)),
      promptTokens: model.promptTokens - old.promptTokens,
      expectedTokens: model.expectedTokens - old.expectedTokens,
      cachedTokens: model.cachedTokens - old.cachedTokens,
      cpuMs: 0,
    });
  }
  const unrouted = {
    ...NOTHING,
    requests: counts.withoutModel.requests - before.withoutModel.requests,
    errors: counts.withoutModel.errors - before.withoutModel.errors,
  };
  found.set("", { ...sumOf([unrouted, ...found.values()]), spanMs, cpuMs: counts.cpuMs - before.cpuMs });
  return found;
}

/** Returns the deltas per second of each node. The count of a node that left and came back restarts at 0. */
function nodeRates(
  before: ReadonlyMap<string, number>,
  deltas: ReadonlyMap<string, number>,
  spanMs: number,
): ReadonlyMap<string, number> {
  const rateOf = (address: string, count: number) =>
    (1_000 * Math.max(0, count - (before.get(address) ?? count))) / spanMs;
  return new Map([...deltas].map(([address, count]) => [address, rateOf(address, count)]));
}

function sumOf(all: readonly Traffic[]): Traffic {
  const sum = (of: (traffic: Traffic) => number) => all.reduce((total, traffic) => total + of(traffic), 0);
  const places = Math.max(0, ...all.map(({ firstTokenCounts }) => firstTokenCounts.length));
  return {
    spanMs: sum(({ spanMs }) => spanMs),
    requests: sum(({ requests }) => requests),
    errors: sum(({ errors }) => errors),
    deltas: sum(({ deltas }) => deltas),
    firstTokenCounts: Array.from({ length: places }, (_, at) => sum((traffic) => traffic.firstTokenCounts[at] ?? 0)),
    promptTokens: sum(({ promptTokens }) => promptTokens),
    expectedTokens: sum(({ expectedTokens }) => expectedTokens),
    cachedTokens: sum(({ cachedTokens }) => cachedTokens),
    cpuMs: sum(({ cpuMs }) => cpuMs),
  };
}

function pointOf(name: string, traffic: Traffic, all: readonly ModelCounts[], atMs: number): FleetPoint {
  const seconds = traffic.spanMs / 1_000;
  const share = (part: number, whole: number) => (whole > 0 ? part / whole : undefined);
  const models = all.filter(({ model }) => name === "" || model === name);
  return {
    atMs,
    requestsPerSecond: traffic.requests / seconds,
    errorsPerSecond: traffic.errors / seconds,
    tokensPerSecond: traffic.deltas / seconds,
    p50Ms: percentile(traffic.firstTokenCounts, 0.5),
    p95Ms: percentile(traffic.firstTokenCounts, 0.95),
    expectedShare: share(traffic.expectedTokens, traffic.promptTokens),
    cachedShare: share(traffic.cachedTokens, traffic.promptTokens),
    queued: models.reduce((sum, { queued }) => sum + queued, 0),
    active: models.reduce((sum, { active }) => sum + active, 0),
    cpuMsPerDelta: name === "" ? share(traffic.cpuMs, traffic.deltas) : undefined,
  };
}
