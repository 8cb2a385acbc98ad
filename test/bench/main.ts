import { mkdir, writeFile } from "node:fs/promises";
import { cpus, loadavg } from "node:os";
import { dirname, resolve } from "node:path";
import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { programVersion } from "../../deploy/runtime/files/project-folder.ts";
import { hostileBench } from "./hostile-bench.ts";
import { llamaBench } from "./llama/llama-bench.ts";
import { EVICTION_ORDERS } from "./replay/piece-cache.ts";
import { replayBench } from "./replay/replay-bench.ts";
import { type BenchResult, type Measured, resultText } from "./report.ts";
import { scaleBench } from "./scale/scale-bench.ts";
import { schemasBench } from "./schemas/schemas-bench.ts";
import { ALL_REPLAY_POLICIES, type BenchSettings, QUICK_SCALE, type ScaleSettings, WHOLE_SCALE } from "./settings.ts";
import { CELL_NAMES, STAND_TARGETS, standBench } from "./stand/stand-bench.ts";
import { turnsBench } from "./turns/turns-bench.ts";

const BENCHES: Readonly<Record<string, (settings: BenchSettings) => Promise<BenchResult>>> = {
  replay: replayBench,
  hostile: hostileBench,
  scale: scaleBench,
  schemas: schemasBench,
  llama: llamaBench,
  stand: standBench,
  turns: turnsBench,
};

const NAMES: readonly string[] = Object.keys(BENCHES);
/** As many as there are addresses of endpoints. */
const MOST_ENDPOINTS = 62_500;

type Options = Omit<BenchSettings, "repetitions" | "scale"> & {
  readonly json?: string;
  readonly scale?: ScaleSettings;
};

async function runAll(names: readonly string[], options: Options): Promise<void> {
  const startedAt = new Date().toISOString();
  const { quick, seconds, sessionsPerNode, seed } = options;
  const settings: BenchSettings = {
    ...options,
    seconds: quick ? Math.min(2, seconds) : seconds,
    repetitions: quick ? 3 : 5,
    sessionsPerNode: quick ? sessionsPerNode.slice(0, 1) : sessionsPerNode,
    seed: quick ? seed.slice(0, 1) : seed,
    scale: options.scale ?? (quick ? QUICK_SCALE : WHOLE_SCALE),
  };
  const results: Measured[] = [];
  for (const name of names) {
    const [loadBefore = Number.NaN] = loadavg();
    const result = await BENCHES[name]?.(settings);
    if (!result) continue;
    const measured = { ...result, name, loadBefore, loadAfter: loadavg()[0] ?? Number.NaN };
    console.log(resultText(measured));
    results.push(measured);
  }
  const file = options.json ?? `bench-results/${startedAt.replaceAll(":", "-")}.json`;
  const machine = { node: process.version, cpus: cpus().length, cpuModel: cpus()[0]?.model ?? "unknown" };
  await mkdir(dirname(resolve(file)), { recursive: true });
  await writeFile(file, `${JSON.stringify({ startedAt, ...machine, ...settings, benches: results }, null, 2)}\n`);
  console.log(`\nWritten to ${file}`);
}

function benchName(name: string, before: readonly string[] = []): readonly string[] {
  if (!NAMES.includes(name)) throw new InvalidArgumentError(`The benches are ${NAMES.join(", ")}.`);
  return [...before, name];
}

function positive(value: string): number {
  const seconds = Number(value);
  if (!(seconds > 0)) throw new InvalidArgumentError("A number above 0 is expected.");
  return seconds;
}

function positives(value: string): readonly number[] {
  return value.split(",").map(positive);
}

function namesOf(what: string, known: readonly string[]): (value: string) => readonly string[] {
  return (value) => {
    const names = value.split(",");
    if (names.every((name) => known.includes(name))) return names;
    throw new InvalidArgumentError(`The ${what} are ${known.join(", ")}.`);
  };
}

/** Parses sizes such as `endpoints=100,streams=500` over the whole scale. */
function scale(value: string): ScaleSettings {
  const pairs = value.split(",").map((part) => part.split("="));
  const sizes = Object.fromEntries(pairs.map(([name = "", size]): [string, number] => [name, Number(size)]));
  const areSizes = Object.entries(sizes).every(
    ([name, size]) => Object.hasOwn(WHOLE_SCALE, name) && Number.isSafeInteger(size) && size >= 1,
  );
  if (areSizes && !(Number(sizes.endpoints) > MOST_ENDPOINTS)) return { ...WHOLE_SCALE, ...sizes };
  throw new InvalidArgumentError("Sizes such as endpoints=100,keys=1000,streams=500,gateways=2 are expected.");
}

async function main(): Promise<number> {
  const command = new Command("bench")
    .description("Measures the service on this machine; asserts nothing.")
    .version(programVersion("bench"), "--version", "print name and version")
    .argument("[benches...]", `any of ${NAMES.join(", ")}; all of them when none is named`, benchName)
    .option("--json <file>", "where the results go; default: bench-results/<date>.json")
    .option("--seconds <n>", "length of one measured stretch under load", positive, 4)
    .option("--quick", "fewer and shorter rounds, smaller loads", false)
    .option("--full", "every cell and every gateway of the stand", false)
    .option("--cells <name,...>", `cells of the stand: ${CELL_NAMES.join(", ")}`, namesOf("cells", CELL_NAMES))
    .option(
      "--targets <name,...>",
      `what the stand measures: ${STAND_TARGETS.join(", ")}`,
      namesOf("targets", STAND_TARGETS),
    )
    .option("--page <file>", "the page that the stand writes")
    .option("--data <folder>", "public data that a bench reads: for `schemas` a folder with checkouts")
    .option("--model <file>", "the model file of `llama`, and one more of `schemas`; default: the demonstration model")
    .option("--llama-server <file>", "the binary of llama-server, which `llama` measures as well")
    .option("--vllm <url>", "a vLLM with the demonstration weights, whose answers `schemas` judges as well")
    .option(
      "--trace <file>",
      "what replay replays, sessions or one of Mooncake's traces; default: some sessions that lie beside it",
    )
    .option("--nodes <n>", "nodes of the replay", positive, 8)
    .option("--prefill-nodes <n>", "nodes among them that only read prompts for the others", Number, 0)
    .option("--ranks <n>", "data-parallel ranks of each node of the replay, of which it picks one", positive, 1)
    .option("--cache-tokens <n>", "tokens of each cache of the replay", positive, 3_000_000)
    .option(
      "--slots <n>",
      "slots of each cache, which share its tokens, of one conversation each; default: none",
      positive,
    )
    .addOption(
      new Option("--evict <order>", "what a full cache of the replay drops first")
        .choices(EVICTION_ORDERS)
        .default("lru"),
    )
    .option("--host-tokens <n>", "host memory behind each cache of the replay, in tokens", Number, 0)
    .option("--prefills-at-once <n>", "prompts that a node of the replay prefills at once", positive, 1)
    .addOption(
      new Option("--nodes-like <engine>", "what nodes of the replay report: all, or what is known beside vLLM")
        .choices(["llama", "vllm"])
        .default("llama"),
    )
    .option("--events-stop-at <minute>", "when the engines' KV events stop; default: never", positive)
    .option("--gateways <n,...>", "gateways of the replay, which share nothing", positives, [1, 4])
    .option("--sessions-per-node <n,...>", "sessions for each node of the replay", positives, [1, 3, 12, 20, 32])
    .option("--seed <n,...>", "seeds of the replay", positives, [1, 2, 3])
    .option(
      "--policies <name,...>",
      "policies of the replay",
      namesOf("policies", ALL_REPLAY_POLICIES),
      ALL_REPLAY_POLICIES,
    )
    .option("--scale <size=n,...>", "sizes of the bench of scale: endpoints, keys, streams, gateways", scale)
    .exitOverride();
  try {
    command.parse();
    await runAll(command.processedArgs[0] ?? NAMES, command.opts<Options>());
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    console.error(`bench: ${error instanceof Error ? (error.stack ?? error.message) : error}`);
    return 1;
  }
}

// Child processes are ended when this process exits.
for (const [signal, number] of [["SIGINT", 2] as const, ["SIGTERM", 15] as const])
  process.once(signal, () => process.exit(128 + number));
process.exitCode = await main();
// Open sockets of libraries must not keep the process alive.
process.exit();
