import type { EngineDialect } from "../engines/engine-dialect.ts";
import type { EngineHttp } from "../http/engine-http.ts";
import { asFields, asList, type JsonFields, parseFields } from "../http/json-fields.ts";

/** An engine's load report; undefined fields are not reported. */
export type EngineLoad = {
  readonly running: number | undefined;
  readonly waiting: number | undefined;
  /** The fraction of the KV cache in use, from 0 to 1. */
  readonly kvUse: number | undefined;
  readonly kvTokensUsed: number | undefined;
  readonly kvTokensTotal: number | undefined;
  /** The engine's progress counters as one text, of which only a change has meaning; undefined if it reports none. */
  readonly counters: string | undefined;
};

type LoadField = Exclude<keyof EngineLoad, "counters">;

const TIMEOUT_MS = 2_000;

/** The metric names of each field on a Prometheus page. Engines rename metrics: the first one present counts. */
const METRICS: Readonly<Record<LoadField, readonly string[]>> = {
  running: ["vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing"],
  waiting: ["vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred"],
  kvUse: ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"],
  kvTokensUsed: ["sglang:num_used_tokens"],
  kvTokensTotal: ["sglang:max_total_num_tokens"],
};

/** The labels with the size of the KV cache: blocks, and tokens per block. */
const CACHE_SIZE: readonly (readonly [metric: string, blocks: string, blockTokens: string])[] = [
  ["vllm:cache_config_info", "num_gpu_blocks", "block_size"],
  ["sglang:cache_config_info", "num_pages", "page_size"],
];

/** The names of each field in the entries of SGLang's `/v1/loads`, one entry per data-parallel rank. */
const LOADS: Readonly<Record<LoadField, readonly string[]>> = {
  running: ["num_running_reqs"],
  waiting: ["num_waiting_reqs", "num_queue_reqs"],
  kvUse: ["token_usage"],
  kvTokensUsed: ["num_used_tokens", "num_tokens"],
  kvTokensTotal: ["max_total_num_tokens"],
};

/** Samples that change only when the engine has worked. */
const COUNTER =
  /^(vllm|sglang|llamacpp):\w*(tokens_total|iteration_tokens_total_count|decode_total|used_tokens|usage\w*)$/;

/** Fields that are averaged over ranks and replicas, because they are fractions; all others are summed. */
const AVERAGED: ReadonlySet<LoadField> = new Set(["kvUse"]);

/** Returns undefined without any of the pages. Throws `EngineError` if the engine does not answer at all. */
export async function readLoad(
  http: EngineHttp,
  dialect: EngineDialect,
  signal: AbortSignal,
): Promise<EngineLoad | undefined> {
  for (const path of dialect.paths.load) {
    const reply = await http.fetch({ path, timeoutMs: TIMEOUT_MS }, signal);
    if (reply.status !== 200) continue;
    return path.startsWith("/metrics") ? loadOfMetrics(reply.text) : loadOfLoads(reply.text);
  }
  return undefined;
}

export function loadOfMetrics(page: string): EngineLoad {
  const samples = readMetricsPage(page);
  const found = collect(METRICS, (name) => samples.get(name)?.map(({ value }) => value));
  const kvTokensTotal = found.kvTokensTotal ?? cacheSize(samples);
  const counters = [...samples].filter(([name]) => COUNTER.test(name));
  return {
    ...found,
    kvTokensTotal,
    kvTokensUsed: found.kvTokensUsed ?? product(found.kvUse, kvTokensTotal),
    counters: counters.length > 0 ? JSON.stringify(counters) : undefined,
  };
}

function cacheSize(samples: ReadonlyMap<string, readonly Sample[]>): number | undefined {
  for (const [metric, blocks, blockTokens] of CACHE_SIZE) {
    const sizes = samples
      .get(metric)
      ?.map((sample) => Number(labelOf(sample, blocks)) * Number(labelOf(sample, blockTokens)));
    const total = sizes?.reduce((sum, size) => sum + size, 0);
    if (total !== undefined && Number.isSafeInteger(total) && total > 0) return total;
  }
  return undefined;
}

function product(share: number | undefined, total: number | undefined): number | undefined {
  return share === undefined || total === undefined ? undefined : Math.round(share * total);
}

export function loadOfLoads(reply: string): EngineLoad {
  const fields = parseFields(reply) ?? {};
  const ranks = asList(fields.loads).map(asFields);
  const entries: readonly JsonFields[] = ranks.length > 0 ? ranks : [fields];
  const found = collect(LOADS, (name) => {
    const values = entries.map((entry) => entry[name]).filter((value) => typeof value === "number");
    return values.length > 0 ? values : undefined;
  });
  // This reply has no counters. Memory in use changes with every step; numbers of requests change with every arrival.
  const { kvUse, kvTokensUsed } = found;
  const counters = (kvUse ?? kvTokensUsed) === undefined ? undefined : JSON.stringify([kvUse, kvTokensUsed]);
  return { ...found, counters };
}

function collect(
  names: Readonly<Record<LoadField, readonly string[]>>,
  valuesOf: (name: string) => readonly number[] | undefined,
): Pick<EngineLoad, LoadField> {
  const read = (field: LoadField): number | undefined => {
    for (const name of names[field]) {
      const values = valuesOf(name);
      if (!values) continue;
      const sum = values.reduce((total, value) => total + value, 0);
      return AVERAGED.has(field) ? sum / values.length : sum;
    }
    return undefined;
  };
  return {
    running: read("running"),
    waiting: read("waiting"),
    kvUse: read("kvUse"),
    kvTokensUsed: read("kvTokensUsed"),
    kvTokensTotal: read("kvTokensTotal"),
  };
}

type Sample = { readonly labels: string; readonly value: number };

/** Parses a Prometheus page (https://prometheus.io/docs/instrumenting/exposition_formats/) by metric. */
function readMetricsPage(page: string): ReadonlyMap<string, readonly Sample[]> {
  const samples = new Map<string, Sample[]>();
  for (const line of page.split("\n")) {
    const [, name, labels = "", text] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line) ?? [];
    const value = Number(text);
    if (name === undefined || !Number.isFinite(value)) continue;
    const known = samples.get(name);
    if (known) known.push({ labels, value });
    else samples.set(name, [{ labels, value }]);
  }
  return samples;
}

function labelOf({ labels }: Sample, name: string): string | undefined {
  return new RegExp(`(?:^|,)${name}="([^"]*)"`).exec(labels)?.[1];
}
