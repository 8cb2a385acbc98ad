import { setMaxListeners } from "node:events";
import { stat } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { DEMONSTRATION } from "../processes/programs.ts";
import {
  type BenchResult,
  formatTable,
  inFolder,
  interleave,
  median,
  medianOf,
  medianRatio,
  type Row,
} from "../report.ts";
import type { BenchSettings } from "../settings.ts";
import { type Answering, type Bare, type Shape, startBare, startNodeTarget, startServerTarget } from "./targets.ts";

/** Answers at once, and of how many sequences each is the only one that runs. */
const WIDTHS = [
  { width: 1, every: 1 },
  { width: 8, every: 1 },
  { width: 16, every: 1 },
  { width: 32, every: 1 },
  { width: 16, every: 2 },
  { width: 8, every: 4 },
];
const WIDE: Shape = { slots: 32, contextTokens: 2_048 };
const ANSWER_TOKENS = 160;
/** The tokens of each answer that are counted. */
const COUNTED_TOKENS = 96;
const OTHERS = 15;
const OTHERS_TOKENS = 1_500;
const NEWCOMER_TOKENS = 1_000;
const NEWCOMERS = 3;
const PREFILLS = [8_000, 32_000];
const QUICK_PREFILLS = [2_000];
const WARMING_TOKENS = 500;
/** The tokens of a prompt up to which it is measured as often as all else. */
const MANY_TIMES_UP_TO = 8_000;
/** Room in a window for the template, the answers and a second turn, in tokens. */
const SPARE_TOKENS = 400;
const SETTLE_MS = 150;

/** Tokens a second, of prompts or of answers, and of a loop with samples; and the time to a first token. */
type Measured = { readonly speed: number; readonly sampled?: number; readonly firstMs?: number };
type Target =
  | { readonly name: "node" | "server"; readonly target: Answering }
  | { readonly name: "bare"; readonly target: Bare };

/**
 * Compares a node with llama.cpp's own call in a loop, and with llama-server where its binary is named. Their
 * measurements alternate, so that other load affects them alike.
 */
export async function llamaBench(settings: BenchSettings): Promise<BenchResult> {
  const { model, llamaServer, quick, repetitions, seconds } = settings;
  const modelPath = model ?? DEMONSTRATION.modelPath;
  const { size } = await stat(modelPath);
  const rounds = quick ? 1 : Math.min(3, repetitions);
  return inFolder("llama", async (folder) => {
    const rows: Row[] = [];
    let windowTokens = WIDE.contextTokens;
    const measure = async (shape: Shape, run: (add: Add) => Promise<void>) => {
      const bare = await startBare(modelPath, size, shape);
      windowTokens = bare.windowTokens;
      const targets: Target[] = [{ name: "bare", target: bare }];
      try {
        targets.push({ name: "node", target: await startNodeTarget(modelPath, shape, bare.endTokens, folder) });
        if (llamaServer !== undefined)
          targets.push({ name: "server", target: await startServerTarget(llamaServer, modelPath, shape) });
        await run(async (what, one, repetitions = rounds) => {
          const measured = await interleave(targets, repetitions, one);
          const added = [rowOf(what, measured, ({ speed }) => speed)];
          if (measured.some((round) => round.get("node")?.firstMs !== undefined))
            added.push(rowOf(FIRST_TOKEN, measured, ({ firstMs }) => firstMs));
          rows.push(...added);
          process.stderr.write(`${formatTable(TABLE.columns, added).split("\n").slice(2).join("\n")}\n`);
        });
      } finally {
        for (const { target } of targets.toReversed()) await target.stop();
      }
    };
    await measure(WIDE, async (add) => {
      for (const { width, every } of WIDTHS) {
        const where = every === 1 ? "" : `, one of ${every} sequences each`;
        await add(`decode, ${width} at once${where}`, (one) => decode(one, width, every, seconds));
      }
      await add(`prompt of ${NEWCOMER_TOKENS} beside ${OTHERS}`, newcomer);
    });
    const prompts = quick ? QUICK_PREFILLS : PREFILLS;
    const lengths = [...new Set(prompts.map((tokens) => Math.min(tokens, windowTokens - SPARE_TOKENS)))];
    await measure({ slots: 1, contextTokens: Math.max(...lengths) + SPARE_TOKENS }, async (add) => {
      for (const tokens of lengths)
        await add(
          `prompt of ${tokens}, and a second turn`,
          (one, counted) => prefill(one, counted ? tokens : WARMING_TOKENS),
          // On a processor one prompt of the longest takes minutes.
          Math.ceil((rounds * MANY_TIMES_UP_TO) / Math.max(tokens, MANY_TIMES_UP_TO)),
        );
    });
    return { ...TABLE, rows, notes: NOTES };
  });
}

type Add = (
  what: string,
  measure: (target: Target, counted: boolean) => Promise<Measured>,
  repetitions?: number,
) => Promise<void>;

const FIRST_TOKEN = "  first token, ms";

const TABLE = {
  title: "llama: an engine node beside llama.cpp's own call in a loop, and llama-server",
  columns: [
    { key: "what", title: "what" },
    { key: "share", title: "of bare", digits: 2 },
    { key: "sampledShare", title: "of bare with samples", digits: 2 },
    { key: "beside", title: "to llama-server", digits: 2 },
    { key: "node", title: "node", digits: 0 },
    { key: "bare", title: "bare", digits: 0 },
    { key: "server", title: "llama-server", digits: 0 },
  ],
};

const NOTES = [
  "The loop calls llama_decode with sequences side by side, and nothing else; with samples it takes a greedy one of each as well.",
  "Figures are tokens a second, where nothing else is said. The node's caller takes its time from the same processors.",
];

function rowOf(
  what: string,
  rounds: readonly ReadonlyMap<string, Measured>[],
  value: (of: Measured) => number | undefined,
): Row {
  const of = (measured: Measured) => value(measured) ?? Number.NaN;
  const sampled = (round: ReadonlyMap<string, Measured>) => round.get("bare")?.sampled ?? Number.NaN;
  return {
    what,
    share: medianRatio(rounds, "node", "bare", of),
    sampledShare:
      what === FIRST_TOKEN
        ? Number.NaN
        : median(rounds.map((round) => (round.get("node")?.speed ?? Number.NaN) / sampled(round))),
    beside: medianRatio(rounds, "node", "server", of),
    ...Object.fromEntries(["node", "bare", "server"].map((name) => [name, medianOf(rounds, name, of)])),
  };
}

/** Starts `width` × `every` answers, ends all but one of `every`, and counts the tokens of the others. */
async function decode({ name, target }: Target, width: number, every: number, seconds: number): Promise<Measured> {
  if (name === "bare") {
    const { decodeMs, sampledMs } = await target.stepMs(width);
    return { speed: (1_000 * width) / decodeMs, sampled: (1_000 * width) / sampledMs };
  }
  const running = await others(target, width * every, ANSWER_TOKENS * (every + 1));
  running.leave((index) => index % every !== 0);
  await sleep(SETTLE_MS);
  const [beganMs, before] = [performance.now(), running.tokens()];
  await Promise.race([running.until(before + width * COUNTED_TOKENS), sleep(1_000 * seconds)]);
  const speed = (1_000 * (running.tokens() - before)) / (performance.now() - beganMs);
  await running.end();
  return { speed };
}

async function newcomer({ name, target }: Target): Promise<Measured> {
  if (name === "bare") return { speed: Number.NaN };
  const running = await others(target, OTHERS, OTHERS_TOKENS);
  const times: number[] = [];
  let speed = Number.NaN;
  for (let index = 0; index < NEWCOMERS; index += 1) {
    const { ms, inputTokens } = await firstToken(target, [prompt(NEWCOMER_TOKENS)]);
    times.push(ms);
    speed = (1_000 * inputTokens) / ms;
  }
  await running.end();
  return { speed, firstMs: median(times) };
}

async function prefill({ name, target }: Target, tokens: number): Promise<Measured> {
  if (name === "bare") return { speed: (1_000 * tokens) / (await target.prefillMs(tokens)) };
  const first = prompt(tokens);
  const { ms, inputTokens, cachedTokens } = await firstToken(target, [first]);
  const second = await firstToken(target, [first, "Yes.", "And what else?"]);
  return { speed: (1_000 * (inputTokens - cachedTokens)) / ms, firstMs: second.ms };
}

async function firstToken(target: Answering, turns: readonly string[]) {
  const beganMs = performance.now();
  let ms = Number.NaN;
  const onTokens = () => {
    if (Number.isNaN(ms)) ms = performance.now() - beganMs;
  };
  return { ...(await target.answer({ turns, tokens: 2, onTokens })), ms };
}

/** Begins answers, and resolves when each of them has its first token. */
async function others(target: Answering, count: number, tokens: number) {
  const seen = Array.from({ length: count }, () => 0);
  const leaving = seen.map(() => new AbortController());
  let changed = () => {};
  const answers = seen.map((_, index) => {
    const { signal } = leaving[index] ?? new AbortController();
    setMaxListeners(0, signal);
    const onTokens = (count: number) => {
      seen[index] = (seen[index] ?? 0) + count;
      changed();
    };
    return target.answer({ turns: [`Count from 1 to 900, number ${index}.`], tokens, onTokens, signal });
  });
  let failed: unknown;
  for (const answer of answers)
    answer.catch((error) => {
      failed = error;
      changed();
    });
  const when = (isSo: () => boolean) =>
    new Promise<void>((resolve, reject) => {
      changed = () => {
        if (failed) reject(failed);
        else if (isSo()) resolve();
      };
      changed();
    });
  const sum = () => seen.reduce((all, one) => all + one, 0);
  await when(() => seen.every((one) => one > 0));
  return {
    tokens: sum,
    until: (wanted: number) => when(() => sum() >= wanted),
    leave: (leaves: (index: number) => boolean) => {
      for (const [index, one] of leaving.entries()) if (leaves(index)) one.abort();
    },
    async end() {
      for (const one of leaving) one.abort();
      await Promise.allSettled(answers);
      await sleep(SETTLE_MS);
    },
  };
}

let promptsMade = 0;

/** Makes a prompt of about so many tokens of most vocabularies, unlike all before from its first word on. */
function prompt(tokens: number): string {
  promptsMade += 1;
  return `${promptsMade} ${"one two three four five ".repeat(Math.floor(tokens / 5))}`.slice(0, -1);
}
