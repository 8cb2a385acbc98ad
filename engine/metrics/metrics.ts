import { certificateRow } from "../../deploy/runtime/metrics/certificate-ends.ts";
import { counter, gauge, histogram } from "../../deploy/runtime/metrics/metric-table.ts";

/* Upper bounds of the histograms. */

const SECONDS_TO_FIRST_DELTA = [0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 600];
const SECONDS_PER_TOKEN = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5];
const SECONDS_IN_QUEUE = [0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160];
const SECONDS_TO_CANCEL = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

const GENERATIONS = {
  svc_engine_generations_total: counter(["model", "reason"])(
    "Finished generations, by model and reason: ok, or the reason of the failure.",
    "Alert on reasons that are the node's fault (errors.md has a column for that). `CANCELLED` is callers leaving, `QUEUE_FULL` too little capacity.",
  ),
  svc_engine_tokens_total: counter(["model", "type"])(
    "Tokens of finished generations, by model and type: input, cached (a part of input), output, reasoning (a part of output).",
    "`cached` of `input` is what the prefix cache saves. If it falls, see `svc_engine_kv_cache_usage_ratio`.",
  ),
  svc_engine_time_to_first_delta_seconds: histogram(SECONDS_TO_FIRST_DELTA, ["model"])(
    "Time from the arrival of a Generate call to its first delta, in seconds, by model.",
    "Compare with `svc_engine_queue_wait_seconds`: the difference is the time to read the prompt.",
  ),
  svc_engine_time_per_output_token_seconds: histogram(SECONDS_PER_TOKEN, ["model"])(
    "Time from the end of the prefill to the end of the answer per output token, in seconds, by model.",
    "Too many slots, more `threads` than free cores, or long prompts read beside it.",
  ),
  svc_engine_queue_wait_seconds: histogram(SECONDS_IN_QUEUE, ["model"])(
    "Time from a request's arrival at the backend to its slot, in seconds, by model.",
    "The node is full. Gateways should queue instead: see whether something else calls the node.",
  ),
  svc_engine_count_tokens_total: counter(["model", "reason"])(
    "Finished CountTokens calls, by model and reason: ok, or the reason of the failure.",
    "Failures other than `INVALID_REQUEST` are worth a look at the log.",
  ),
  svc_engine_schema_unchecked_total: counter(["model"])(
    "Whole answers and call arguments that were not checked, because their schema is invalid or too costly, by model.",
    "A few are broken schemas of tools; many are costly schemas, or a queue of such work.",
  ),
  svc_engine_schema_mismatches_total: counter(["model", "part"])(
    "Whole answers and call arguments that violate their schema, by model and part: answer, arguments.",
    "On `llama` with `strict` a bug to report; elsewhere how well the model or the engine keeps to schemas.",
  ),
  svc_engine_prefix_contradictions_total: counter(["found"])(
    "Prompts of which the engine found other tokens cached than the node announces, by found: more, less.",
    "A few come from evictions. Where it grows, the engine's KV events are wrong or have stopped: restart the engine.",
  ),
  svc_engine_connection_refusals_total: counter(["limit"])(
    "Calls refused because their connection exceeded a limit, by limit: request_bytes, watches.",
    "A caller has too much open on one connection. If it is a gateway with large prompts, add nodes.",
  ),
  svc_engine_caller_work_total: counter(["kind", "outcome"])(
    "Worker jobs that callers' input caused, by kind and outcome: whole, partly (up to its budget), refused, given_up (time or memory limit), failed (a fault of the node).",
    "`failed` is a bug to report. `given_up`: a budget of work is too generous for this machine. Many `partly`: costly schemas; see whose.",
  ),
  svc_engine_cancel_latency_seconds: histogram(SECONDS_TO_CANCEL)(
    "Time from a caller's cancellation or deadline to the release of its slot, in seconds.",
    "Above 0.1 s, slots stay busy for callers who have left: steps of the engine take that long.",
  ),
};

const NODE = {
  svc_engine_running: gauge()(
    "Generate calls that the backend works on now, waiting ones included.",
    "More than `svc_engine_slots`: some of them wait in the queue.",
  ),
  svc_engine_slots: gauge()(
    "Generations that the backend can run at once.",
    "An unexpected change: of the configuration, or of the engine beside the node.",
  ),
  svc_engine_slots_busy: gauge()(
    "Slots of the backend that generations hold now.",
    "At `svc_engine_slots` the node is full.",
  ),
  svc_engine_queue: gauge()("Generate calls that wait for a slot now.", "If it stays above 0, add nodes."),
  svc_engine_streams_paused: gauge()(
    "Generations that wait for a slow reader now.",
    "Slow readers keep their slots: many make the node look full while it idles.",
  ),
  svc_engine_kv_cache_usage_ratio: gauge()(
    "Fraction of the KV cache in use, 0 to 1, where known.",
    "Near 1, cached prefixes are evicted early. A smaller `contextTokens` or fewer `slots` leave more room.",
  ),
  svc_engine_step_age_seconds: gauge()(
    "Seconds for which running work has waited for a step of the engine, beyond the time that one may take; 0 while steps advance or without a watchdog.",
    "Alert above 30: the engine makes no step. The node leaves service at `maxStepAgeMs`; after ten times as long `/livez/engine` is 503: restart the engine.",
  ),
  svc_engine_info: gauge(["engine"])(
    "1, by engine: its version and, of llama.cpp, the device, its layers of all, and the KV memory.",
    "Another device than meant, or fewer layers on it: the node's log says why, and which `contextTokens` or `slots` fit.",
  ),
  svc_engine_kv_memory_bytes: gauge(["state"])(
    "KV memory in bytes where known, by state: reserved, or held, the part of it with tokens.",
    "`held` far below `reserved` for days: fewer `slots` or `contextTokens` free memory.",
  ),
  svc_engine_decoder_passes_total: counter(["cause"])(
    "Passes of llama.cpp over the weights, by cause: step, or gap, one more because running sequences lay apart.",
    "`gap` above a tenth of `step`: running answers take more passes than they need. Report it with the model and `slots`.",
  ),
  svc_engine_tokens_per_second: gauge(["phase"])(
    "Recent speed in tokens per second by phase: uncached prompt tokens in prefill, tokens of one generation in decode.",
    "Gateways route by it. A fall without more load: clock rates of the machine, other programs.",
  ),
  svc_engine_own_rendering: gauge()(
    "1 where the node renders prompts beside an engine, 0 where it had to stop.",
    "0: the log says why; the engine renders, and tokenizes whole prompts.",
  ),
  svc_engine_kept_prompts_bytes: gauge()(
    "Bytes of messages of earlier prompts, at most.",
    "At `tokenCacheMegabytes`, prompts are dropped before ten minutes.",
  ),
  svc_engine_prompt_tokens_total: counter(["how"])(
    "Tokens of prompts by how the node got them: known from earlier prompts, or tokenized.",
    "Few `known`: `tokenCacheMegabytes` is small, or `own_rendering` is 0.",
  ),
  svc_tls_certificate_expiry_timestamp_seconds: certificateRow("As of a gateway."),
  svc_engine_gpu_memory_bytes: gauge()(
    "GPU memory in use in bytes, where known.",
    "Near the card's size, the next growth of a cache fails. Leave some room.",
  ),
};

/** The metrics of a node, by the headings of their page. */
export const SECTIONS = { Generations: GENERATIONS, "The node now": NODE };

/** The same in one table. */
export const METRICS = { ...GENERATIONS, ...NODE };
