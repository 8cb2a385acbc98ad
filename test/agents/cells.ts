import { rmSync, writeFileSync } from "node:fs";
import { stripVTControlCharacters } from "node:util";
import type { Agent } from "../../deploy/local/launch/agents.ts";
import { AGENT_CURES } from "../../gateway/http/connection/agent-cures.ts";
import type { AgentSetting } from "../../gateway/outcome.ts";
import type { Installed } from "./installed.ts";
import type { Body, Spoil } from "./spoiler.ts";
import { type Given, generations, type Logged, type Seen, Stand, type StandSettings } from "./stand.ts";
import { DONE } from "./task.ts";

/* What each agent is put through. */

/** The result of one agent in one cell. */
export type Outcome = {
  readonly pass: boolean;
  /** Requests of generation. */
  readonly requests: number;
  /** How many of them were refused, by status and reason. */
  readonly refused: Readonly<Record<string, number>>;
  /** Least share of its predecessor's prompt that a turn found in the cache, in percent. */
  readonly cached?: number;
  /** Tokens of the first prompt of the conversation, and of all prompts. */
  readonly prompt?: { readonly first: number; readonly all: number };
  readonly compactions?: number;
  /** What the agent's user reads at the end. Absent: the task is done. */
  readonly reads?: string;
};

export type Cell = {
  readonly name: string;
  /** Whether the agent has what the cell needs. */
  readonly suits?: (agent: Agent) => boolean;
  readonly run: (stands: Stands, installed: Installed, agent: Agent) => Promise<Outcome>;
};

const STANDS = {
  agents: {},
  plain: { args: [] },
  /** Any tool for editing can write files of this size: that of Cline takes 6,000 characters. */
  small: { contextTokens: 32_768, steps: 30, tokens: 1_100, tokensPerSecond: 4_000 },
  refusing: { contextTokens: 32_768, steps: 30, tokens: 1_100, tokensPerSecond: 4_000, spareTokens: 2_048 },
} as const satisfies Readonly<Record<string, StandSettings>>;

/** The stands, each of them started when it is needed. */
export class Stands {
  readonly #started = new Map<keyof typeof STANDS, Promise<Stand>>();

  at(name: keyof typeof STANDS): Promise<Stand> {
    const started = this.#started.get(name) ?? Stand.started(STANDS[name]);
    this.#started.set(name, started);
    return started;
  }

  async end(): Promise<void> {
    for (const started of this.#started.values()) await (await started).end();
  }
}

const OUTAGE_MS = 5_000;

/** A word that no level of reasoning has. */
const NO_EFFORT = "extreme";

const HOSTED: Spoil = (body, path) => {
  body.tools = [...(body.tools ?? []), { type: "web_search", ...(/messages/.test(path) && { name: "web_search" }) }];
};

const WRONG_EFFORT: Spoil = (body: Body, path) => {
  if (/messages/.test(path)) body.output_config = { ...body.output_config, effort: NO_EFFORT };
  else if (/responses/.test(path)) body.reasoning = { ...body.reasoning, effort: NO_EFFORT };
  else body.reasoning_effort = NO_EFFORT;
};

export const CELLS: readonly Cell[] = [
  task("six turns", "agents", {}),
  { ...task("own instructions", "agents", { settings: "own instructions" }), suits: hasOwnInstructions },
  task("node killed", "agents", {
    disturb: async (at, since) => {
      const address = await at.inMidTurn(since);
      at.killEngines([address === at.service.engine ? "engine-1" : "engine-2"]);
    },
  }),
  task("connection cut", "agents", {
    disturb: async (at, since) => {
      await at.inMidTurn(since);
      at.cut();
    },
  }),
  task("outage", "agents", {
    disturb: async (at, since) => {
      await at.inMidTurn(since);
      writeFileSync(at.outage, "");
      at.killEngines(["engine-1", "engine-2"]);
      await new Promise((resolve) => setTimeout(resolve, OUTAGE_MS));
      rmSync(at.outage);
    },
  }),
  task("window 32,768", "small", {}),
  refusal("unknown model", "model", "plain", { model: "svc-nope" }),
  refusal("hosted tool", "hosted", "plain", { spoil: HOSTED }),
  refusal("wrong effort", "effort", "plain", { spoil: WRONG_EFFORT }),
  {
    name: "window not set",
    run: async (stands, installed, agent) => {
      const settings = hasOwnInstructions(agent) ? "own instructions" : "page";
      const seen = await (await stands.at("refusing")).run(installed, agent, { contextTokens: 262_144, settings });
      return refused(seen, "window");
    },
  },
  task("launch", "agents", { settings: "launch" }),
  { ...refusal("first try", "model", "plain", { settings: "first" }), suits: hasFirstTry },
  { ...refusal("first try, --agents", "model", "agents", { settings: "first" }), suits: hasFirstTry },
];

function hasOwnInstructions({ ownInstructions }: Agent): boolean {
  return ownInstructions !== undefined;
}

function hasFirstTry({ firstTry }: Agent): boolean {
  return firstTry !== undefined;
}

/** A cell that is passed by the files of the task. */
function task(name: string, stand: keyof typeof STANDS, given: Given): Cell {
  return {
    name,
    run: async (stands, installed, agent) => finished(await (await stands.at(stand)).run(installed, agent, given)),
  };
}

/** A cell that is passed by an end at once, with our message. */
function refusal(name: string, kind: AgentSetting, stand: keyof typeof STANDS, given: Given): Cell {
  return {
    name,
    run: async (stands, installed, agent) => refused(await (await stands.at(stand)).run(installed, agent, given), kind),
  };
}

/** Of an agent that was ended. */
const NO_END = "no end in three minutes";

function finished({ code, output, wrong, touched, log: all }: Seen): Outcome {
  const log = generations(all);
  const sizes = log.map(({ prompt_tokens = 0 }) => prompt_tokens).filter((size) => size > 0);
  const counted = {
    requests: log.length,
    refused: refusedBy(log),
    cached: Math.floor(lowestShare(log) * 1000) / 10,
    prompt: {
      first: sizes.find((size) => !isAside(size, Math.max(...sizes))) ?? 0,
      all: sizes.reduce((sum, size) => sum + size, 0),
    },
    compactions: sizes.filter((size, index) => size < (sizes[index - 1] ?? 0) * 0.9).length,
  };
  const ended = output.includes(DONE) || code === 0;
  if (wrong.length === 0 && touched.length === 0 && ended) return { pass: true, ...counted };
  const home = touched.length > 0 ? `, touched ${touched.slice(0, 8).join(" ")}` : "";
  const exit = `${code === null ? NO_END : `exit ${code}`}, ${wrong.length} files wrong${home}`;
  return { pass: false, ...counted, reads: `${exit}: ${lastLine(output)}` };
}

/** Words of our messages. Terminals break lines. */
const MESSAGES: Readonly<Record<AgentSetting, RegExp>> = {
  model: /does not exist/,
  hosted: /only tools that the caller runs|Only tools of the type 'function'/,
  effort: /'none', 'minimal', 'low'/,
  window: /maximum context length is|prompt is too long|The prompt has \d+ tokens/,
};

/** The own words of agents that know the code of a prompt that is too long. */
const FULL_WINDOW = /model's context window/;

/** The most refused requests of an agent that ends at once; one is for the title of its conversation. */
const AT_ONCE = 2;

/** Returns the price of a refusal. A pass: the task is done all the same, or the agent ends at once and shows the message. */
function refused(seen: Seen, kind: AgentSetting): Outcome {
  const log = generations(seen.log);
  const counted = { requests: log.length, refused: refusedBy(log) };
  if (seen.wrong.length === 0) return { pass: true, ...counted };
  const text = stripVTControlCharacters(seen.output).replaceAll(/[\s│┃║|]+/g, " ");
  const shown = MESSAGES[kind].test(text);
  const settings = AGENT_CURES.flatMap(({ cures }) => cures[kind] ?? []).filter((cure) => cure.startsWith("Set "));
  const named = settings.some(
    (setting) => text.includes(setting) || text.includes(JSON.stringify(setting).slice(1, -1)),
  );
  const end = log.findLastIndex(({ code }) => code < 400);
  return {
    pass:
      (shown || (kind === "window" && FULL_WINDOW.test(text))) && seen.code !== null && log.length - end - 1 <= AT_ONCE,
    ...counted,
    reads: readOf(seen, named, shown),
  };
}

function readOf({ code, output }: Seen, named: boolean, shown: boolean): string {
  if (named) return "message, with its setting";
  if (shown) return "message";
  return code === null ? NO_END : `"${lastLine(output)}"`;
}

function refusedBy(log: readonly Logged[]): Record<string, number> {
  const kinds: Record<string, number> = {};
  for (const { code, detail } of log) {
    if (code < 400) continue;
    const kind = `${code} ${detail}`;
    kinds[kind] = (kinds[kind] ?? 0) + 1;
  }
  return kinds;
}

/** Smaller prompts are side requests, such as for a title. */
function isAside(tokens: number, most: number): boolean {
  return tokens * 1.5 < most;
}

function lowestShare(log: readonly Logged[]): number {
  const turns = log.filter(({ code, prompt_tokens = 0 }) => code === 200 && prompt_tokens > 0);
  const most = Math.max(...turns.map(({ prompt_tokens = 0 }) => prompt_tokens));
  let [before = 0, lowest] = [0, 1];
  for (const { prompt_tokens = 0, cached_tokens = 0 } of turns) {
    if (isAside(prompt_tokens, most)) continue;
    if (before > 0) lowest = Math.min(lowest, cached_tokens / before);
    before = prompt_tokens;
  }
  return lowest;
}

function lastLine(output: string): string {
  const lines = stripVTControlCharacters(output)
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const told =
    lines.filter((line) => /error|400|model|tool|not/i.test(line)).at(-1) ?? lines.at(-1) ?? "nothing printed";
  return told.slice(0, 120);
}
