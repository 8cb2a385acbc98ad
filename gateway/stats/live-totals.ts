/** Over which times to first token are shown. */
const FIRST_TOKEN_SPAN_MS = 60_000;

/** Totals of one model since the start; whoever shows rates takes differences. */
export type ModelTotals = {
  requests: number;
  /** Requests that failed for a reason of the service. */
  errors: number;
  /** Answers under way. */
  active: number;
  /** Deltas stand for tokens while an answer runs: engines send one per step. */
  deltas: number;
  readonly firstTokens: RecentTimes;
};

/** Totals of one endpoint since the start. */
export type EndpointTotals = { deltas: number };

/**
 * Counts for the admin page, as plain numbers that the path of every delta can add to. Models and endpoints are ours, so
 * neither table can be made to grow.
 */
export class LiveTotals {
  /** Of all models. */
  readonly firstTokens = new RecentTimes(FIRST_TOKEN_SPAN_MS);
  readonly #models = new Map<string, ModelTotals>();
  readonly #endpoints = new Map<string, EndpointTotals>();

  model(id: string): ModelTotals {
    const known = this.#models.get(id);
    if (known) return known;
    const firstTokens = new RecentTimes(FIRST_TOKEN_SPAN_MS);
    const totals = { requests: 0, errors: 0, active: 0, deltas: 0, firstTokens };
    this.#models.set(id, totals);
    return totals;
  }

  endpoint(address: string): EndpointTotals {
    const known = this.#endpoints.get(address);
    if (known) return known;
    const totals = { deltas: 0 };
    this.#endpoints.set(address, totals);
    return totals;
  }

  /** Forgets endpoints that are no more. Answers that still run on them count for nobody. */
  keepEndpoints(addresses: ReadonlySet<string>): void {
    for (const address of this.#endpoints.keys()) if (!addresses.has(address)) this.#endpoints.delete(address);
  }
}

/** Samples that are kept; with more in the span, the newest count. */
const CAPACITY = 1_024;

/** The newest samples of a quantity, for percentiles over the last span of time. */
export class RecentTimes {
  readonly #spanMs: number;
  readonly #atMs = new Float64Array(CAPACITY);
  readonly #values = new Float64Array(CAPACITY);
  #count = 0;

  /** `spanMs`: how long a sample counts. */
  constructor(spanMs: number) {
    this.#spanMs = spanMs;
  }

  /** `nowMs`: monotonic. */
  add(value: number, nowMs: number): void {
    const at = this.#count % CAPACITY;
    this.#atMs[at] = nowMs;
    this.#values[at] = value;
    this.#count += 1;
  }

  /** The values below which these shares (above 0, to 1) of the span's samples lie; undefined without any sample. */
  percentiles(shares: readonly number[], nowMs: number): readonly (number | undefined)[] {
    const kept = Math.min(this.#count, CAPACITY);
    const recent = this.#values.slice(0, kept).filter((_, at) => nowMs - (this.#atMs[at] ?? 0) <= this.#spanMs);
    recent.sort();
    return shares.map((share) => recent[Math.max(0, Math.ceil(share * recent.length) - 1)]);
  }
}
