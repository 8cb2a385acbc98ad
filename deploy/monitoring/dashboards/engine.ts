import { type Dashboard, quantile, rate, share } from "./dashboard.ts";

const INSTANCE = 'instance=~"$instance"';

export const engine: Dashboard = {
  name: "engine",
  title: "svc / Engine nodes",
  text: "Load, speed and failures of each engine node.",
  variables: [{ label: "instance", title: "Node", of: "svc_engine_slots" }],
  rows: [
    {
      title: "Load",
      panels: [
        {
          title: "Busy slots",
          text: "The share of each node's slots that generations hold. At 1 the node is full.",
          unit: "percentunit",
          queries: [[`svc_engine_slots_busy{${INSTANCE}} / svc_engine_slots{${INSTANCE}}`, "{{instance}}"]],
        },
        {
          title: "Queue",
          text: "Generations that wait for a slot at the node. Gateways queue instead, so this stays near 0.",
          unit: "short",
          queries: [[`svc_engine_queue{${INSTANCE}}`, "{{instance}}"]],
        },
        {
          title: "Wait for a slot",
          text: "The time from a request's arrival at the backend to its slot.",
          unit: "s",
          queries: [[quantile(0.95, "svc_engine_queue_wait_seconds", ["instance"], INSTANCE), "p95 {{instance}}"]],
        },
        {
          title: "KV memory",
          text: "The share of KV memory in use. Near 1, cached prefixes are evicted early.",
          unit: "percentunit",
          queries: [[`svc_engine_kv_cache_usage_ratio{${INSTANCE}}`, "{{instance}}"]],
        },
        {
          title: "GPU memory",
          text: "GPU memory in use, if the node can read it. Near the card's size, the next growth of a cache fails.",
          unit: "bytes",
          queries: [[`svc_engine_gpu_memory_bytes{${INSTANCE}}`, "{{instance}}"]],
        },
        {
          title: "Streams that wait for their reader",
          text: "Generations that wait for a slow reader: they keep their slots.",
          unit: "short",
          queries: [[`svc_engine_streams_paused{${INSTANCE}}`, "{{instance}}"]],
        },
      ],
    },
    {
      title: "Speed",
      panels: [
        {
          title: "Prefill speed",
          text: "Recent uncached prompt tokens a second. If it falls without more load, check clock rates and other programs.",
          unit: "short",
          queries: [[`svc_engine_tokens_per_second{phase="prefill",${INSTANCE}}`, "{{instance}}"]],
        },
        {
          title: "Decode speed",
          text: "Recent tokens a second of one generation.",
          unit: "short",
          queries: [[`svc_engine_tokens_per_second{phase="decode",${INSTANCE}}`, "{{instance}}"]],
        },
        {
          title: "Tokens",
          text: "Tokens a second of finished generations, by type; cached is a part of input, reasoning a part of output.",
          unit: "short",
          queries: [[rate("svc_engine_tokens_total", ["type"], INSTANCE), "{{type}}"]],
        },
        {
          title: "Time to the first delta",
          text: "From the arrival of a call to its first delta; less the wait for a slot, it is the time to read the prompt.",
          unit: "s",
          queries: [
            [quantile(0.95, "svc_engine_time_to_first_delta_seconds", ["instance"], INSTANCE), "p95 {{instance}}"],
          ],
        },
        {
          title: "Time per output token",
          text: "Decoding, per output token. Too many slots, too many threads, or long prompts beside it make it slower.",
          unit: "s",
          queries: [
            [quantile(0.95, "svc_engine_time_per_output_token_seconds", ["instance"], INSTANCE), "p95 {{instance}}"],
          ],
        },
        {
          title: "Input from the cache",
          text: "The share of input tokens that were in the node's cache.",
          unit: "percentunit",
          queries: [
            [
              share("svc_engine_tokens_total", ["instance"], `type="cached",${INSTANCE}`, `type="input",${INSTANCE}`),
              "{{instance}}",
            ],
          ],
        },
      ],
    },
    {
      title: "Faults",
      panels: [
        {
          title: "Generations that failed",
          text: "Failed generations a second, by reason; engine/docs/errors.md describes each.",
          unit: "ops",
          queries: [[rate("svc_engine_generations_total", ["reason"], `reason!="ok",${INSTANCE}`), "{{reason}}"]],
        },
        {
          title: "Age of the newest step",
          text: "How long running work has seen no step of the engine. The node takes itself out of service at maxStepAgeMs.",
          unit: "s",
          queries: [[`svc_engine_step_age_seconds{${INSTANCE}}`, "{{instance}}"]],
        },
        {
          title: "Broken schemas",
          text: "Whole answers and arguments of calls, a second, that their schema does not allow, or that were not checked.",
          unit: "ops",
          queries: [
            [rate("svc_engine_schema_mismatches_total", ["part"], INSTANCE), "{{part}} not allowed"],
            [rate("svc_engine_schema_unchecked_total", [], INSTANCE), "not checked"],
          ],
        },
      ],
    },
  ],
};
