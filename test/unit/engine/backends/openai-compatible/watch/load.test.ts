import { expect, test } from "vitest";
import {
  type EngineLoad,
  loadOfLoads,
  loadOfMetrics,
} from "../../../../../../engine/backends/openai-compatible/watch/load.ts";

/** The reported fields, without the counters. */
function reported({ counters: _, ...load }: EngineLoad): object {
  return JSON.parse(JSON.stringify(load));
}

test.each([
  [
    "vLLM",
    'vllm:num_requests_running{engine="0"} 3.0\nvllm:num_requests_running{engine="1"} 2\nvllm:num_requests_waiting 4\nvllm:kv_cache_usage_perc{engine="0"} 0.5\nvllm:kv_cache_usage_perc{engine="1"} 0.1',
    { running: 5, waiting: 4, kvUse: 0.3 },
  ],
  [
    "a vLLM that exports its cache size",
    [
      'vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="1000",user_num_gpu_blocks="7"} 1.0',
      'vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="1",num_gpu_blocks="500"} 1.0',
      'vllm:kv_cache_usage_perc{engine="0"} 0.25',
    ].join("\n"),
    { kvUse: 0.25, kvTokensTotal: 24_000, kvTokensUsed: 6_000 },
  ],
  ["a vLLM that has not sized its memory yet", 'vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1', {}],
  [
    "an SGLang that exports its pages",
    'sglang:cache_config_info{num_pages="2048",page_size="64"} 1\nsglang:token_usage 0.5\nsglang:num_used_tokens 9',
    { kvUse: 0.5, kvTokensUsed: 9, kvTokensTotal: 131_072 },
  ],
  ["an older vLLM", "vllm:gpu_cache_usage_perc 0.25\n", { kvUse: 0.25 }],
  [
    "SGLang",
    "sglang:num_running_reqs 1\nsglang:num_queue_reqs 2\nsglang:token_usage 0.75",
    { running: 1, waiting: 2, kvUse: 0.75 },
  ],
  [
    "llama-server",
    "# HELP x y\nllamacpp:requests_processing 1\nllamacpp:requests_deferred 0\n",
    { running: 1, waiting: 0 },
  ],
  ["a page without load metrics", "up 1\nvllm:num_requests_running NaN\nnonsense", {}],
])("reads the metrics of %s", (_engine, page, found) => {
  expect(reported(loadOfMetrics(page))).toEqual(found);
});

test("sums the ranks of SGLang's loads, and averages their fractions", () => {
  const rank = { num_running_reqs: 2, num_waiting_reqs: 1, token_usage: 0.5 };
  const loads = [rank, { ...rank, token_usage: 0.1, max_total_num_tokens: 1_000 }];
  expect(reported(loadOfLoads(JSON.stringify({ loads })))).toEqual({
    running: 4,
    waiting: 2,
    kvUse: 0.3,
    kvTokensTotal: 1_000,
  });
});

test("a reply that is not JSON has no load", () => {
  expect(reported(loadOfLoads("<html>"))).toEqual({});
});

test("counters change when the engine has worked, not when requests arrive", () => {
  const page = (steps: number, waiting: number) =>
    loadOfMetrics(`vllm:iteration_tokens_total_count ${steps}\nvllm:num_requests_waiting ${waiting}`).counters;
  expect(page(1, 2)).toBe(page(1, 3));
  expect(page(1, 2)).not.toBe(page(2, 2));
  const loads = (used: number, waiting: number) =>
    loadOfLoads(JSON.stringify({ loads: [{ num_used_tokens: used, num_waiting_reqs: waiting }] })).counters;
  expect(loads(1, 2)).toBe(loads(1, 3));
  expect(loads(1, 2)).not.toBe(loads(2, 2));
});

test("an engine without progress metrics has no counters", () => {
  expect(loadOfMetrics("llamacpp:requests_processing 1\n").counters).toBeUndefined();
  expect(loadOfLoads('{"loads":[{"num_running_reqs":1}]}').counters).toBeUndefined();
});
