import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { AGENTS, type Agent } from "../../deploy/local/agents.ts";
import { metricSum } from "../support/metric-text.ts";
import { processesWith } from "../support/processes/processes-with.ts";
import { type Service, startService } from "../support/processes/start-service.ts";
import { Forwarder } from "../support/redis/forwarder.ts";
import { type AgentRun, Installed } from "./installed.ts";
import { contentOf, DONE, fileOf, type Script } from "./task.ts";

/*
 * The lane of agents: `test/agents/run [agent …]`. Each agent does the task of task.ts against `npm start`, with the
 * settings of the table that the page is generated from, in a home folder of its own. Prints a table; each cell is a
 * pass with its figures, or a reason.
 */

/** A line of the access log. */
type Logged = {
  readonly msg: string;
  readonly code: number;
  readonly route: string;
  readonly method: string;
  readonly detail?: string;
  readonly prompt_tokens?: number;
  readonly cached_tokens?: number;
  readonly continuations?: number;
  readonly endpoint?: string;
  readonly transport?: "websocket";
  readonly socket_end?: string;
};

const GENERATIONS = /chat\/completions|messages$|responses$/;

type Stand = {
  readonly service: Service;
  readonly wire: Forwarder;
  readonly outage: string;
  readonly script: Script;
  readonly contextTokens: number;
};

type Settings = {
  readonly args?: readonly string[];
  readonly steps?: number;
  readonly tokens?: number;
  readonly contextTokens?: number;
  readonly tokensPerSecond?: number;
};

const folder = mkdtempSync(join(tmpdir(), "svc-agents-"));
const closing: (() => unknown)[] = [];

async function stand({
  args = ["--agents"],
  steps = 5,
  tokens = 60,
  contextTokens = 262_144,
  tokensPerSecond = 200,
}: Settings): Promise<Stand> {
  const outage = join(folder, `outage-${closing.length}`);
  const engine = { kind: "agents", steps, tokens, contextTokens, tokensPerSecond, outage };
  const service = await startService(
    [0, 0, 0],
    { args: ["--engines", "2", "--log-level", "info", ...args], env: { SVC_AGENTS_ENGINE: JSON.stringify(engine) } },
    "test/agents/start.js",
  );
  const wire = await Forwarder.to(Number(new URL(service.baseUrl).port));
  closing.push(
    () => service.stop(),
    () => wire.end(),
  );
  return { service, wire, outage, script: { steps, tokens }, contextTokens };
}

function logOf({ service }: Stand): readonly Logged[] {
  return service
    .said()
    .split("\n")
    .filter((line) => line.startsWith("{") && line.includes('"msg":"request"'))
    .map((line) => JSON.parse(line));
}

const generations = (log: readonly Logged[]) =>
  log.filter(
    ({ route, method, transport, socket_end }) =>
      GENERATIONS.test(route) && (transport ? socket_end === undefined : method !== "GET"),
  );

type Given = {
  readonly model?: string;
  readonly first?: boolean;
  readonly disturb?: (at: Stand, since: number) => Promise<unknown>;
};

type Seen = AgentRun & { readonly log: readonly Logged[]; readonly wrong: readonly string[] };

async function runOn(
  at: Stand,
  agent: Agent,
  { model = "svc-glm53", first = false, disturb }: Given = {},
): Promise<Seen> {
  const before = logOf(at).length;
  const place = {
    baseUrl: `http://${at.wire.address}`,
    key: at.service.key,
    model,
    smallModel: model === "svc-glm53" ? "svc-qwen" : model,
    contextTokens: at.contextTokens,
  };
  const home = mkdtempSync(join(folder, "home-"));
  const work = join(home, "work");
  mkdirSync(work);
  const running = installed.run(agent, place, home, first);
  const disturbed = disturb?.(at, before).catch((error: unknown) => String(error));
  const ran = await running;
  await disturbed;
  await settled(at);
  if (process.env.SVC_AGENTS_KEEP)
    writeFileSync(join(home, "log.json"), JSON.stringify(logOf(at).slice(before), null, 1));
  const { steps, tokens } = at.script;
  const wrong = Array.from({ length: steps }, (_, index) => index + 1).filter(
    (step) => contentAt(join(work, fileOf(step))) !== contentOf(step, tokens).trim(),
  );
  if (!process.env.SVC_AGENTS_KEEP) rmSync(home, { recursive: true, force: true });
  return { ...ran, log: logOf(at).slice(before), wrong: wrong.map(fileOf) };
}

/** Resolves when the lines of the requests that an ended agent has made are written. */
async function settled(at: Stand): Promise<void> {
  for (let seen = -1; seen !== at.service.said().length; ) {
    seen = at.service.said().length;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}

function contentAt(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8").trim();
  } catch {
    return undefined;
  }
}

/** Returns the least share of its predecessor's prompt that a turn found in the cache, for turns of the conversation. */
function lowestShare(log: readonly Logged[]): number {
  const turns = log.filter(({ code, prompt_tokens = 0 }) => code === 200 && prompt_tokens > 0);
  const most = Math.max(...turns.map(({ prompt_tokens = 0 }) => prompt_tokens));
  let [before = 0, lowest] = [0, 1];
  for (const { prompt_tokens = 0, cached_tokens = 0 } of turns) {
    // Smaller prompts are side requests, such as for a title.
    if (prompt_tokens * 1.5 < most) continue;
    if (before > 0) lowest = Math.min(lowest, cached_tokens / before);
    before = prompt_tokens;
  }
  return lowest;
}

function tally(log: readonly Logged[]): string {
  const refused = log.filter(({ code }) => code >= 400);
  const kinds = [...new Set(refused.map(({ code, detail }) => `${code} ${detail}`))];
  return `${log.length} requests${refused.length > 0 ? `, ${refused.length} refused (${kinds.join("; ")})` : ""}`;
}

/** Returns `pass` if the task is finished, else the reason. */
function finished({ code, output, wrong, log }: Seen): string {
  if (wrong.length > 0) return `FAILS: ${wrong.length} files wrong, exit ${code}, ${tally(log)}: ${lastLine(output)}`;
  if (!output.includes(DONE) && code !== 0) return `FAILS: exit ${code}: ${lastLine(output)}`;
  return "pass";
}

function lastLine(output: string): string {
  const lines = stripVTControlCharacters(output)
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const told =
    lines.filter((line) => /error|400|model|tool|not/i.test(line)).at(-1) ?? lines.at(-1) ?? "nothing printed";
  return told.slice(0, 240);
}

/** Resolves while the third answer is under way. */
async function inMidTurn(at: Stand, since: number): Promise<readonly Logged[]> {
  const until = Date.now() + 100_000;
  for (;;) {
    const log = generations(logOf(at).slice(since)).filter(({ code }) => code === 200);
    const active =
      log.length >= 2
        ? metricSum(await (await fetch(`${at.service.adminUrl}/stats`)).text(), "svc_cluster_upstream_rq_active")
        : 0;
    if (active > 0) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      return log;
    }
    if (Date.now() > until) throw new Error("there was no third request");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function killEngines({ service }: Stand, names: readonly string[]): void {
  for (const name of names)
    for (const pid of processesWith(`${service.stateDir}/${name}.yaml`)) process.kill(pid, "SIGKILL");
}

const OUTAGE_MS = 5_000;

/** The cells of an agent, in the order of the table. */
const CELLS: Readonly<Record<string, (agent: Agent) => Promise<string>>> = {
  "six turns": async (agent) => {
    const seen = await runOn(await agents(), agent);
    const log = generations(seen.log);
    const end = finished(seen);
    return end === "pass" ? `pass: ${tally(log)}, ${(lowestShare(log) * 100).toFixed(1)} % cached` : end;
  },
  "node killed": async (agent) => {
    const disturb = async (at: Stand, since: number) => {
      const log = await inMidTurn(at, since);
      const { address = "" } = { address: log.at(-1)?.endpoint };
      killEngines(at, [address === at.service.engine ? "engine-1" : "engine-2"]);
    };
    const seen = await runOn(await agents(), agent, { disturb });
    const continued = seen.log.reduce((sum, { continuations = 0 }) => sum + continuations, 0);
    const end = finished(seen);
    return end === "pass" ? `pass: ${tally(generations(seen.log))}, ${continued} continued` : end;
  },
  "connection cut": async (agent) => {
    const disturb = async (at: Stand, since: number) => {
      await inMidTurn(at, since);
      at.wire.turnTo(Number(new URL(at.service.baseUrl).port));
    };
    const seen = await runOn(await agents(), agent, { disturb });
    const end = finished(seen);
    return end === "pass" ? `pass: ${tally(generations(seen.log))}` : end;
  },
  outage: async (agent) => {
    const disturb = async (at: Stand, since: number) => {
      await inMidTurn(at, since);
      writeFileSync(at.outage, "");
      killEngines(at, ["engine-1", "engine-2"]);
      await new Promise((resolve) => setTimeout(resolve, OUTAGE_MS));
      rmSync(at.outage);
    };
    const seen = await runOn(await agents(), agent, { disturb });
    const end = finished(seen);
    return end === "pass" ? `pass: ${tally(generations(seen.log))}` : end;
  },
  "wrong model": async (agent) => {
    const seen = await runOn(await plain(), agent, { model: "svc-nope" });
    return refusal(seen);
  },
  "first try": async (agent) =>
    agent.firstTry ? refusal(await runOn(await plain(), agent, { first: true })) : "needs a setting to start",
  "first try, --agents": async (agent) =>
    agent.firstTry ? refusal(await runOn(await agents(), agent, { first: true })) : "needs a setting to start",
  "window 32,768": async (agent) => {
    const seen = await runOn(await small(), agent);
    const log = generations(seen.log);
    const end = finished(seen);
    const sizes = log.map(({ prompt_tokens = 0 }) => prompt_tokens).filter((size) => size > 0);
    const shorter = sizes.filter((size, index) => size < (sizes[index - 1] ?? 0) * 0.9).length;
    return end === "pass" ? `pass: ${tally(log)}, ${shorter} compactions` : end;
  },
};

/** Returns the price of a refusal, and the line that the user reads. A pass: at most two requests, and the cure is shown. */
function refusal(seen: Seen): string {
  const log = generations(seen.log);
  if (seen.wrong.length === 0) return `pass: the task finishes, ${tally(log)}`;
  const shown = /svc-qwen|does not exist/.test(seen.output);
  const verdict = log.length <= 2 && shown ? "pass" : shown ? "FAILS" : "FAILS (cure not shown)";
  return `${verdict}: ${tally(log)}: ${lastLine(seen.output)}`;
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => (made ??= make());
}

const agents = once(() => stand({}));
const plain = once(() => stand({ args: [] }));
const small = once(() => stand({ contextTokens: 32_768, steps: 22, tokens: 1_500, tokensPerSecond: 4_000 }));

const installed = new Installed(process.env.SVC_TEST_AGENTS ?? "");
const [, , ...wanted] = process.argv;
const cells = wanted.filter((word) => Object.hasOwn(CELLS, word));
const names = wanted.filter((word) => !cells.includes(word) && word !== "--packages");
const chosen = AGENTS.filter(
  ({ name, program }) => names.length === 0 || names.includes(name) || names.includes(program),
);
if (wanted.includes("--packages")) {
  for (const agent of chosen) process.stdout.write(`${agent.registry} ${agent.package}\n`);
  process.exit(0);
}
let failed = 0;
try {
  for (const agent of chosen) {
    process.stdout.write(`\n## ${agent.name} ${installed.versionOf(agent)}\n`);
    for (const [name, cell] of Object.entries(CELLS)) {
      if (cells.length > 0 && !cells.includes(name)) continue;
      const said = await cell(agent).catch(
        (error: unknown) => `FAILS: ${error instanceof Error ? error.message : error}`,
      );
      if (said.startsWith("FAILS")) failed += 1;
      process.stdout.write(`| ${name} | ${said.replaceAll("|", "/")} |\n`);
    }
  }
} finally {
  for (const close of closing.reverse()) await close();
  if (!process.env.SVC_AGENTS_KEEP) rmSync(folder, { recursive: true, force: true });
}
process.stdout.write(`\n${failed} cells fail\n`);
process.exit(failed > 0 ? 1 : 0);
