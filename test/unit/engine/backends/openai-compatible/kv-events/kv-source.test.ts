import { expect, test } from "vitest";
import { DIALECTS } from "../../../../../../engine/backends/openai-compatible/engines/dialects.ts";
import type { DialectName } from "../../../../../../engine/backends/openai-compatible/engines/engine-dialect.ts";
import type { JsonFields } from "../../../../../../engine/backends/openai-compatible/http/json-fields.ts";
import { kvSource } from "../../../../../../engine/backends/openai-compatible/kv-events/kv-source.ts";

const source = (endpoint: string, listen: boolean, replayEndpoint?: string) => ({ endpoint, listen, replayEndpoint });

/** The sources that a node finds on the pages of an engine. */
async function found(dialect: DialectName, pages: Readonly<Record<string, JsonFields>>) {
  const publishers = (await DIALECTS[dialect].kvPublishers?.(async (path) => pages[path] ?? {})) ?? [];
  return publishers.map(({ config, rank }) => kvSource(config, "10.0.0.7", rank));
}

// As vLLM 0.32 replies.
const VLLM = {
  ...{ enable_kv_cache_events: true, publisher: "zmq", endpoint: "tcp://127.0.0.1:5557", topic: "", hwm: 100_000 },
  replay_endpoint: "tcp://127.0.0.1:5657",
};

test.each([
  [
    "each rank of vLLM, which connects to the node",
    "vllm",
    { "/kv_event_sources": { "1": { ...VLLM, endpoint: "tcp://127.0.0.1:5558" }, "0": VLLM } },
    [
      source("tcp://127.0.0.1:5557", true, "tcp://127.0.0.1:5657"),
      source("tcp://127.0.0.1:5558", true, "tcp://127.0.0.1:5657"),
    ],
  ],
  [
    "a vLLM that listens, with wildcards",
    "vllm",
    { "/kv_event_sources": { "0": { ...VLLM, endpoint: "tcp://*:5557", replay_endpoint: "tcp://[::]:5657" } } },
    [source("tcp://10.0.0.7:5557", false, "tcp://10.0.0.7:5657")],
  ],
  [
    "a vLLM with a socket file and no replay",
    "vllm",
    { "/kv_event_sources": { "0": { ...VLLM, endpoint: "ipc:///run/kv", replay_endpoint: null } } },
    [source("ipc:///run/kv", false)],
  ],
  ["a vLLM without events", "vllm", { "/kv_event_sources": {} }, []],
  [
    "the ranks of SGLang, at consecutive ports",
    "sglang",
    {
      "/server_info": { dp_size: 2, kv_events_config: '{"publisher":"zmq","replay_endpoint":"tcp://127.0.0.1:5657"}' },
    },
    [
      source("tcp://10.0.0.7:5557", false, "tcp://127.0.0.1:5657"),
      source("tcp://10.0.0.7:5558", false, "tcp://127.0.0.1:5658"),
    ],
  ],
  [
    "the ranks of SGLang with groups of attention, at the endpoints that it describes",
    "sglang",
    {
      "/server_info": {
        ...{ dp_size: 1, attn_dp_size: 4, kv_events_config: '{"publisher":"zmq","endpoint":"tcp://*:1","topic":"kv"}' },
        kv_events: {
          ...{ publisher: "zmq", endpoint_host: "0.0.0.0", endpoint_port_base: 5557, topic: "kv", block_size: 64 },
          ...{ dp_size: 2, replay_endpoint_port_base: 5657 },
        },
      },
    },
    [
      source("tcp://10.0.0.7:5557", false, "tcp://10.0.0.7:5657"),
      source("tcp://10.0.0.7:5558", false, "tcp://10.0.0.7:5658"),
    ],
  ],
  [
    "the ranks of SGLang with groups of attention, where it describes none",
    "sglang",
    { "/server_info": { dp_size: 1, attn_dp_size: 2, kv_events_config: '{"publisher":"zmq"}', kv_events: null } },
    [source("tcp://10.0.0.7:5557", false), source("tcp://10.0.0.7:5558", false)],
  ],
  [
    "an SGLang that listens at an address of its own",
    "sglang",
    {
      "/server_info": {
        kv_events_config: '{"publisher":"zmq","endpoint":"tcp://127.0.0.1:5557","bind":true}',
        kv_events: { publisher: "zmq", endpoint_host: "127.0.0.1", endpoint_port_base: 5557, dp_size: 1 },
      },
    },
    [source("tcp://127.0.0.1:5557", false)],
  ],
  ["an SGLang without events", "sglang", { "/server_info": { dp_size: 1, kv_events_config: null } }, [undefined]],
  [
    "an endpoint of another kind",
    "vllm",
    { "/kv_event_sources": { "0": { ...VLLM, endpoint: "inproc://kv" } } },
    [undefined],
  ],
] as const)("finds the events of %s", async (_what, dialect, pages, sources) => {
  expect(await found(dialect, pages)).toEqual(sources);
});
