import { readdirSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { projectFolder } from "../../../deploy/runtime/files/project-folder.ts";
import { LoadClient } from "../load.ts";
import { type RunningChild, startBenchGateway, startChild, startNode } from "../processes/programs.ts";
import { PACED } from "../processes/requests.ts";
import type { EngineFiles, Tokenized } from "../processes/tokenizing-engine.ts";
import { type BenchResult, inFolder, median, type Row } from "../report.ts";
import type { BenchSettings } from "../settings.ts";
import { type Item, type Session, type Target, TRANSPORTS } from "./transports.ts";

const SIZES = [100_000, 1_000_000, 4_000_000];
/** Processor time of gateway and node for a turn by HTTP, in milliseconds, by the size. */
const TARGETS_MS: Readonly<Record<number, number>> = { 100000: 60, 1000000: 250, 4000000: 700 };
const MOST_GAP_MS = 50;
const RESULT_BYTES = 8_000;
const NEW_BYTES = 2_000;
const TOOLS = 20;
/** Milliseconds behind an answer in which the processes finish what they do for it. */
const SETTLE_MS = 250;
const ALONE_MS = 2_000;
/** Between two looks at the event loop's lag, which the metric counts in. */
const LAG_RESOLUTION_MS = 10;
/** The most that a neighbour's first token may wait for a cold prompt. */
const MOST_WAIT_MS = 500;
const ENGINE_PROGRAM = join(import.meta.dirname, "../processes/tokenizing-engine.js");
const CONTROL = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"];

/** Processor time in milliseconds. */
type Cpu = { readonly total: number; readonly main: number };
type Turn = {
  readonly gateway: Cpu;
  readonly node: Cpu;
  readonly tokenized: Tokenized;
  /** The longest time that the node's event loop was late, in milliseconds. */
  readonly blockMs: number;
};
type Stand = {
  readonly target: Target;
  readonly gateway: RunningChild;
  readonly node: RunningChild;
  readonly engineUrl: string;
};

/** Measures a turn of 2 KB on long conversations through a gateway, a node and a stand-in engine as processes. */
export function turnsBench({ quick, repetitions }: BenchSettings): Promise<BenchResult> {
  return inFolder("turns", async (folder) => {
    const files = await engineFiles(folder);
    const engine = await startChild("engine", ENGINE_PROGRAM, [files.engineFile], folder);
    const engineUrl = String(engine.ready.baseUrl);
    const backend = { kind: "openai-compatible", dialect: "vllm", baseUrl: engineUrl, profile: "hermes-thinking" };
    const node = await startNode("node", { ...backend, tokenizerFile: files.tokenizerFile }, folder);
    const gateway = await startBenchGateway(join(folder, "gateway"), { engines: [String(node.ready.address)] });
    const stand = { target: gateway, gateway, node, engineUrl };
    try {
      const sizes = quick ? SIZES.slice(0, 2) : SIZES;
      const rows: Row[] = [];
      for (const transport of TRANSPORTS) {
        await warmUp(stand, transport.open(gateway, tools()));
        for (const bytes of sizes) {
          const session = transport.open(gateway, tools());
          const cold = await turn(stand, session, conversation(bytes, rows.length));
          const warm: Turn[] = [];
          for (let at = 0; at <= repetitions; at += 1)
            warm.push(await turn(stand, session, [userSays(bytes + at, NEW_BYTES)]));
          session.close();
          rows.push(rowOf(transport.name, bytes, cold, warm.slice(1)));
        }
      }
      const gaps = quick ? [] : await gapNotes(stand, repetitions);
      return { title: "turns: 2 KB new on a long conversation", columns: COLUMNS, rows, notes: [...NOTES, ...gaps] };
    } finally {
      for (const child of [gateway, node, engine]) await child.stop();
    }
  });
}

const COLUMNS = [
  { key: "transport", title: "transport" },
  { key: "size", title: "conversation" },
  { key: "both", title: "gateway + node ms", digits: 0 },
  { key: "target", title: "target", digits: 0 },
  { key: "gateway", title: "gateway" },
  { key: "node", title: "node" },
  { key: "block", title: "longest block of the node ms: warm, cold" },
  { key: "characters", title: "characters tokenized", digits: 0 },
  { key: "cold", title: "cold: gateway, node" },
  { key: "calls", title: "calls", digits: 0 },
  { key: "longest", title: "longest", digits: 0 },
];
const NOTES = [
  "Processor milliseconds of the whole process / of its main thread, medians of turns; the engine is a stand-in, whose tokenizer's share is in characters.",
];

function rowOf(transport: string, bytes: number, cold: Turn, warm: readonly Turn[]): Row {
  const of = (value: (turn: Turn) => number) => median(warm.map(value));
  const pair = (total: number, main: number) => `${total.toFixed(0)} / ${main.toFixed(0)}`;
  return {
    ...{ transport, size: `${bytes / 1_000} KB` },
    both: of(({ gateway, node }) => gateway.total + node.total),
    target: transport === "HTTP" ? (TARGETS_MS[bytes] ?? Number.NaN) : Number.NaN,
    gateway: pair(
      of(({ gateway }) => gateway.total),
      of(({ gateway }) => gateway.main),
    ),
    node: pair(
      of(({ node }) => node.total),
      of(({ node }) => node.main),
    ),
    block: `${of(({ blockMs }) => blockMs).toFixed(0)}, ${cold.blockMs.toFixed(0)}`,
    characters: of(({ tokenized }) => tokenized.characters),
    cold: `${pair(cold.gateway.total, cold.gateway.main)}, ${pair(cold.node.total, cold.node.main)}`,
    ...{ calls: cold.tokenized.calls, longest: cold.tokenized.longest },
  };
}

async function turn({ gateway, node, engineUrl }: Stand, session: Session, fresh: readonly Item[]): Promise<Turn> {
  const { send } = session.ready(fresh);
  await fetch(`${engineUrl}/counts`).then((reply) => reply.json());
  await longestBlockMs(node);
  const before = [cpuOf(gateway.pid), cpuOf(node.pid)] as const;
  await send();
  await sleep(SETTLE_MS);
  const tokenized = (await (await fetch(`${engineUrl}/counts`)).json()) as Tokenized;
  const spent = (pid: number, { total, main }: Cpu) => {
    const now = cpuOf(pid);
    return { total: now.total - total, main: now.main - main };
  };
  const spentOf = { gateway: spent(gateway.pid, before[0]), node: spent(node.pid, before[1]) };
  return { ...spentOf, tokenized, blockMs: await longestBlockMs(node) };
}

/** Returns how late the node's event loop was at most since the last call, in milliseconds. */
async function longestBlockMs({ ready }: RunningChild): Promise<number> {
  const page = await (await fetch(`http://127.0.0.1:${ready.metricsPort}/metrics`)).text();
  const [, seconds] = page.match(/^nodejs_eventloop_lag_max_seconds (\S+)$/m) ?? [];
  if (seconds === undefined) throw new Error("the node has no metric of its event loop's lag");
  return Math.max(0, Number(seconds) * 1_000 - LAG_RESOLUTION_MS);
}

/** The first answers of each form are compared with the engine's rendering, and code is compiled. */
async function warmUp(stand: Stand, session: Session): Promise<void> {
  await turn(stand, session, conversation(1_000_000, 99));
  for (let at = 0; at < 12; at += 1) await turn(stand, session, [userSays(at, NEW_BYTES)]);
  session.close();
}

/** Returns the processor time of a process, exact to the threads that still run. */
function cpuOf(pid: number): Cpu {
  const spent = (thread: string) => {
    try {
      return Number.parseInt(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "latin1"), 10) / 1e6;
    } catch {
      return 0;
    }
  };
  const total = readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + spent(thread), 0);
  return { total, main: spent(String(pid)) };
}

/**
 * Measures how much longer a neighbour's piece takes from the engine to the caller beside prompts of the largest size
 * than alone: so much wider its longest gap is. The stand-in's own pauses, as it tokenizes, do not count.
 */
async function gapNotes({ target }: Stand, rounds: number): Promise<readonly string[]> {
  const http = TRANSPORTS[0];
  if (!http) return [];
  const content = JSON.stringify({ model: "svc-qwen", stream: true, messages: [{ role: "user", content: PACED }] });
  const head = ["POST /v1/chat/completions HTTP/1.1", "host: bench", `authorization: Bearer ${target.key}`];
  const more = ["content-type: application/json", `content-length: ${content.length}`, "", content];
  const client = await LoadClient.open({ name: "the gateway", port: target.port }, [[...head, ...more].join("\r\n")]);
  const longest = async (during: () => Promise<unknown>) => {
    // This process reads what came while it wrote a body.
    await sleep(SETTLE_MS);
    client.start();
    await during();
    await sleep(SETTLE_MS);
    return Math.max(...client.read().delaysMs);
  };
  /** Sends a short prompt of its own a moment after a turn began, and returns the milliseconds to its answer. */
  const waits = async (seed: number, during: Promise<unknown>) => {
    await sleep(SETTLE_MS / 5);
    const own = http.open(target, []).ready([userSays(seed, NEW_BYTES)]);
    const from = performance.now();
    await own.send();
    const ms = performance.now() - from;
    await during;
    return ms;
  };
  const first = { alone: [] as number[], cold: [] as number[] };
  const late = { alone: [] as number[], cold: [] as number[], warm: [] as number[] };
  for (let round = 0; round < rounds; round += 1) {
    late.alone.push(await longest(() => sleep(ALONE_MS)));
    const session = http.open(target, tools());
    const cold = session.ready(conversation(4_000_000, 100 + round));
    late.cold.push(await longest(() => cold.send()));
    const warm = session.ready([userSays(1_000 + round, NEW_BYTES)]);
    late.warm.push(await longest(() => warm.send()));
    session.close();
    first.alone.push(await waits(2_000 + round, sleep(0)));
    const another = http.open(target, tools()).ready(conversation(4_000_000, 200 + round));
    first.cold.push(await waits(3_000 + round, another.send()));
  }
  client.close();
  const alone = median(late.alone);
  const note = (what: "cold" | "warm") =>
    `A neighbour's longest gap grows by ${(median(late[what]) - alone).toFixed(0)} ms beside a ${what} prompt of 4 MB by HTTP (at most ${MOST_GAP_MS}); latest pieces ${late[what].map((gap) => gap.toFixed(0)).join(", ")}, alone ${late.alone.map((gap) => gap.toFixed(0)).join(", ")}.`;
  const shown = (waited: readonly number[]) => waited.map((ms) => ms.toFixed(0)).join(", ");
  const ownAnswer = `A neighbour's short answer takes ${(median(first.cold) - median(first.alone)).toFixed(0)} ms longer beside a cold prompt of 4 MB (its first token at most ${MOST_WAIT_MS}): ${shown(first.cold)}, alone ${shown(first.alone)}.`;
  return [note("cold"), note("warm"), ownAnswer];
}

function tools(): readonly object[] {
  return Array.from({ length: TOOLS }, (_, at) => ({
    ...{ type: "function", name: `tool_${at}`, description: `${words(at, 400)}.`, strict: false },
    parameters: { type: "object", properties: { path: { type: "string", description: words(at, 100) } } },
  }));
}

/** Returns a run of calls with results, of about so many bytes. */
function conversation(bytes: number, seed: number): readonly Item[] {
  const items: Item[] = [userSays(seed, RESULT_BYTES)];
  for (let at = 0; at * RESULT_BYTES < bytes; at += 1) {
    const call_id = `call_${seed}_${at}`;
    const args = JSON.stringify({ path: `src/${seed}/file-${at}.ts` });
    items.push({ type: "function_call", call_id, name: `tool_${at % TOOLS}`, arguments: args });
    items.push({ type: "function_call_output", call_id, output: words(seed * 1_000 + at, RESULT_BYTES - 200) });
  }
  return items;
}

function userSays(seed: number, bytes: number): Item {
  return { type: "message", role: "user", content: [{ type: "input_text", text: words(seed, bytes) }] };
}

/** Returns words of about so many bytes that differ from those of other seeds. */
function words(seed: number, bytes: number): string {
  let state = seed + 1;
  let text = "";
  while (text.length < bytes) {
    state = (state * 48_271) % 2_147_483_647;
    text += `${state.toString(36)}${state % 9 === 0 ? "\n" : " "}`;
  }
  return text;
}

async function engineFiles(folder: string) {
  const template = readFileSync(join(projectFolder(), "engine/demo-model/template.jinja"), "utf8");
  const model = join(folder, "model");
  await mkdir(model);
  const tokens = CONTROL.map((content, id) => ({ id, content, lstrip: false, single_word: false, normalized: false }));
  const tokenizerFile = join(model, "tokenizer.json");
  await writeFile(tokenizerFile, JSON.stringify({ added_tokens: tokens }));
  await writeFile(join(model, "chat_template.jinja"), template);
  const engineFile = join(folder, "engine.json");
  await writeFile(engineFile, JSON.stringify({ template, control: CONTROL } satisfies EngineFiles));
  return { tokenizerFile, engineFile };
}
