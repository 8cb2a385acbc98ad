import { percentile } from "../stats/first-token-times.ts";
import type { GatewayReport } from "./gateway-report.ts";

/** The span of one point of the charts, in milliseconds. */
export const POINT_MS = 10_000;
/** The number of points that are kept: an hour. */
const POINTS = 360;
/** The number of points over which times to first token are taken for now: a minute. */
const RECENT_POINTS = 6;

/** What went on between two looks, or in the span of a point: differences of totals, of one model or of all. */
export type Traffic = {
  /** The time that it is about, in milliseconds. */
  readonly spanMs: number;
  /** The number of requests that ended. */
  readonly requests: number;
  /** The number of requests that failed for a reason of the service. */
  readonly errors: number;
  /** The number of deltas, which stand for tokens. */
  readonly deltas: number;
  /** The number of first tokens by the time until them. */
  readonly firstTokens: readonly number[];
  /** The tokens of prompts of which an engine told what was in its cache. */
  readonly promptTokens: number;
  /** The tokens of these prompts that were expected in caches. */
  readonly expectedTokens: number;
  /** The tokens of these prompts that were in caches. */
  readonly cachedTokens: number;
  /** The time for which gateways used processors, in milliseconds. */
  readonly cpuMs: number;
};

/** One point of the charts: the whole fleet, or one model of it, over ten seconds. What is not known is undefined. */
export type FleetPoint = {
  /** The end of the span, in milliseconds since the epoch. */
  readonly atMs: number;
  /** The number of requests that ended in a second. */
  readonly requestsPerSecond: number;
  /** The number of requests that failed in a second for a reason of the service. */
  readonly errorsPerSecond: number;
  /** The number of tokens in a second, counted as deltas. */
  readonly tokensPerSecond: number;
  /** The time to the first token below which half of them lie, in milliseconds. */
  readonly p50Ms: number | undefined;
  /** The time to the first token below which 95 % of them lie, in milliseconds. */
  readonly p95Ms: number | undefined;
  /** The share of prompt tokens that were expected in caches, from 0 to 1. */
  readonly expectedShare: number | undefined;
  /** The share of prompt tokens that were in caches, from 0 to 1. */
  readonly cachedShare: number | undefined;
  /** The number of requests that waited at gateways at the end of the span. */
  readonly queued: number;
  /** The number of answers that ran at the end of the span. */
  readonly active: number;
  /** The processor time of gateways for each delta, in milliseconds; undefined of one model, as it is not told apart. */
  readonly cpuMsPerDelta: number | undefined;
};

const NOTHING: Traffic = {
  spanMs: 0,
  requests: 0,
  errors: 0,
  deltas: 0,
  firstTokens: [],
  promptTokens: 0,
  expectedTokens: 0,
  cachedTokens: 0,
  cpuMs: 0,
};

/**
 * Keeps what went on in a fleet over the last hour, from the reports of its gateways, in a bounded number of points. A
 * gateway counts from the second of its reports on, and one that comes back counts from there on.
 */
export class FleetHistory {
  /** The points by model, and of all models together as "". */
  #points: ReadonlyMap<string, readonly FleetPoint[]> = new Map();
  #before: ReadonlyMap<string, GatewayReport> = new Map();
  #beforeMs: number | undefined;
  #newest: ReadonlyMap<string, Traffic> = new Map();
  /** The tokens a second of each node, by address. */
  #nodes: ReadonlyMap<string, number> = new Map();
  /** What went on in the span of the point that is not complete, by model, and in the points of the last minute. */
  #spans: ReadonlyMap<string, Traffic>[] = [new Map()];

  /**
   * Returns the points of the last hour, oldest first, of one model or, as "", of all together; none of a model that no
   * gateway serves.
   */
  points(model: string): readonly FleetPoint[] {
    return this.#points.get(model) ?? [];
  }

  /** Takes the newest report of each gateway, at `nowMs` in monotonic milliseconds and `wallMs` since the epoch. */
  add(reports: readonly GatewayReport[], nowMs: number, wallMs: number): void {
    const spanMs = this.#beforeMs === undefined ? 0 : nowMs - this.#beforeMs;
    this.#newest = this.#differences(reports, spanMs);
    this.#nodes = spanMs > 0 ? this.#nodeRates(reports, spanMs) : new Map();
    this.#before = new Map(reports.map((report) => [report.id, report]));
    this.#beforeMs = nowMs;
    const [span = new Map(), ...older] = this.#spans;
    const summed = new Map(span);
    for (const [name, traffic] of this.#newest) summed.set(name, sumOf([summed.get(name) ?? NOTHING, traffic]));
    this.#spans = [summed, ...older];
    const pointMs = summed.get("")?.spanMs ?? 0;
    if (pointMs < POINT_MS) return;
    const pointsOf = (name: string, traffic: Traffic) =>
      [...this.points(name), pointOf(name, { ...traffic, spanMs: pointMs }, reports, wallMs)].slice(-POINTS);
    this.#points = new Map([...summed].map(([name, traffic]) => [name, pointsOf(name, traffic)]));
    this.#spans = [new Map(), ...this.#spans].slice(0, RECENT_POINTS + 1);
  }

  /** Returns what went on between the newest two looks, with one model or, as "", with all together. */
  newest(model: string): Traffic {
    return this.#newest.get(model) ?? NOTHING;
  }

  /** Returns the tokens a second that all gateways got from a node between the newest two looks; undefined before. */
  nodeTokensPerSecond(address: string): number | undefined {
    return this.#nodes.get(address);
  }

  /** Returns the times to first token of the last minute below which these shares lie, of one model or, as "", of all. */
  recentFirstTokens(model: string, shares: readonly number[]): readonly (number | undefined)[] {
    const { firstTokens } = sumOf(this.#spans.map((span) => span.get(model) ?? NOTHING));
    return shares.map((share) => percentile(firstTokens, share));
  }

  #nodeRates(reports: readonly GatewayReport[], spanMs: number): ReadonlyMap<string, number> {
    const rates = new Map<string, number>();
    for (const { id, nodes } of reports) {
      const before = new Map(this.#before.get(id)?.nodes.map(({ address, deltas }) => [address, deltas]));
      for (const { address, deltas } of nodes) {
        const since = Math.max(0, deltas - (before.get(address) ?? deltas));
        rates.set(address, (rates.get(address) ?? 0) + (1_000 * since) / spanMs);
      }
    }
    return rates;
  }

  #differences(reports: readonly GatewayReport[], spanMs: number): ReadonlyMap<string, Traffic> {
    const found = new Map<string, Traffic>([["", { ...NOTHING, spanMs }]]);
    const add = (name: string, traffic: Traffic) =>
      found.set(name, { ...sumOf([found.get(name) ?? NOTHING, traffic]), spanMs });
    for (const report of reports) {
      const before = this.#before.get(report.id);
      if (!before) continue;
      const { withoutModel } = report;
      add("", {
        ...NOTHING,
        cpuMs: Math.max(0, report.cpuMs - before.cpuMs),
        requests: Math.max(0, withoutModel.requests - before.withoutModel.requests),
        errors: Math.max(0, withoutModel.errors - before.withoutModel.errors),
      });
      for (const model of report.models) {
        const old = before.models.find((one) => one.model === model.model);
        if (!old) continue;
        const since = (name: "requests" | "errors" | "deltas" | "promptTokens" | "expectedTokens" | "cachedTokens") =>
          Math.max(0, model[name] - old[name]);
        const traffic: Traffic = {
          spanMs: 0,
          requests: since("requests"),
          errors: since("errors"),
          deltas: since("deltas"),
          firstTokens: model.firstTokens.map((count, at) => Math.max(0, count - (old.firstTokens[at] ?? 0))),
          promptTokens: since("promptTokens"),
          expectedTokens: since("expectedTokens"),
          cachedTokens: since("cachedTokens"),
          cpuMs: 0,
        };
        add("", traffic);
        add(model.model, traffic);
      }
    }
    return found;
  }
}

function sumOf(all: readonly Traffic[]): Traffic {
  const sum = (of: (traffic: Traffic) => number) => all.reduce((total, traffic) => total + of(traffic), 0);
  const places = Math.max(0, ...all.map(({ firstTokens }) => firstTokens.length));
  return {
    spanMs: sum(({ spanMs }) => spanMs),
    requests: sum(({ requests }) => requests),
    errors: sum(({ errors }) => errors),
    deltas: sum(({ deltas }) => deltas),
    firstTokens: Array.from({ length: places }, (_, at) => sum(({ firstTokens }) => firstTokens[at] ?? 0)),
    promptTokens: sum(({ promptTokens }) => promptTokens),
    expectedTokens: sum(({ expectedTokens }) => expectedTokens),
    cachedTokens: sum(({ cachedTokens }) => cachedTokens),
    cpuMs: sum(({ cpuMs }) => cpuMs),
  };
}

function pointOf(name: string, traffic: Traffic, reports: readonly GatewayReport[], atMs: number): FleetPoint {
  const seconds = traffic.spanMs / 1_000;
  const share = (part: number, whole: number) => (whole > 0 ? part / whole : undefined);
  const models = reports.flatMap((report) => report.models).filter(({ model }) => name === "" || model === name);
  return {
    atMs,
    requestsPerSecond: traffic.requests / seconds,
    errorsPerSecond: traffic.errors / seconds,
    tokensPerSecond: traffic.deltas / seconds,
    p50Ms: percentile(traffic.firstTokens, 0.5),
    p95Ms: percentile(traffic.firstTokens, 0.95),
    expectedShare: share(traffic.expectedTokens, traffic.promptTokens),
    cachedShare: share(traffic.cachedTokens, traffic.promptTokens),
    queued: models.reduce((sum, { queued }) => sum + queued, 0),
    active: models.reduce((sum, { active }) => sum + active, 0),
    cpuMsPerDelta: name === "" ? share(traffic.cpuMs, traffic.deltas) : undefined,
  };
}
