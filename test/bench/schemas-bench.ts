import { loadLlama } from "../support/engine/load-llama.ts";
import { ownCases } from "../support/schemas/own-cases.ts";
import type { BenchResult, Row } from "./report/bench-result.ts";
import { percentile } from "./report/percentile.ts";
import { hostileRows } from "./schemas/hostile-schemas.ts";
import { type Judged, judge, type Outcome, type ReadGrammar } from "./schemas/judge.ts";
import { publicSets } from "./schemas/public-sets.ts";
import { PUBLISHED } from "./schemas/published.ts";
import type { SchemaCase } from "./schemas/schema-case.ts";
import type { BenchSettings } from "./settings.ts";

const QUICK_STEP = 20;
const OWN_CASES = 500;
/** The maximum reported reasons of refusals. */
const MAX_REASONS = 12;

const OUTCOMES: Readonly<Record<Outcome, string>> = {
  right: "right",
  refused: "refused",
  "valid refused": "validRefused",
  "invalid let through": "invalidLet",
  broken: "broken",
};

/**
 * Judges the grammars of JSON Schemas by the public procedure, with llama.cpp's own parser: the project's cases, and
 * the public collections in the folder of `--data`. It asserts nothing.
 */
export async function schemasBench({ quick, data, hostile }: BenchSettings): Promise<BenchResult> {
  if (hostile) return hostileSchemas(quick);
  const read = await llamaReader();
  const step = quick ? QUICK_STEP : 1;
  const own = { name: "own cases", cases: ownCases(OWN_CASES) };
  const rows: Row[] = [];
  const notes: string[] = [];
  for (const { name, cases } of [own, ...(data === undefined ? [] : publicSets(data))]) {
    const judged = await judgeAll(cases, step, read);
    for (const { who, undeclared } of SETTINGS) {
      const found = judged.map((each) => each[undeclared]);
      rows.push(rowOf(name, who, found, ({ outcome }) => outcome));
      rows.push(rowOf(name, `${who}, strict`, found, ({ strict }) => strict));
      notes.push(timesOf(`${name}, ${undeclared} members`, found), ...reasonsOf(name, found));
    }
    if (name === "MaskBench") rows.push(...PUBLISHED);
  }
  return {
    title: "schemas: values of public schemas held to our grammars",
    columns: [
      { key: "set", title: "set" },
      { key: "who", title: "who" },
      { key: "of", title: "schemas", digits: 0 },
      { key: "share", title: "right %", digits: 1 },
      { key: "right", title: "right", digits: 0 },
      { key: "refused", title: "refused", digits: 0 },
      { key: "validRefused", title: "valid refused", digits: 0 },
      { key: "invalidLet", title: "invalid let through", digits: 0 },
      { key: "broken", title: "broken", digits: 0 },
    ],
    rows,
    notes: [
      "Right: every value of the schema came out as it should. Figures of others are as published in March 2025.",
      ...notes,
    ],
  };
}

async function hostileSchemas(quick: boolean): Promise<BenchResult> {
  const { rows, alike } = await hostileRows(quick);
  return {
    title: "schemas: work of hostile shapes, by who does it",
    columns: [
      { key: "shape", title: "shape" },
      { key: "backend", title: "backend" },
      { key: "profile", title: "profile" },
      { key: "loopMs", title: "longest turn ms", digits: 1 },
      { key: "loopMostMs", title: "at most ms", digits: 1 },
      { key: "coldMs", title: "thread, first ms", digits: 0 },
      { key: "threadMs", title: "thread ms", digits: 0 },
      { key: "mostMs", title: "at most ms", digits: 0 },
    ],
    rows,
    notes: [
      "CPU time of one piece of work of the costliest size: the first time, the median of three more, and the most of all.",
      ...alike.map((each) => `${each}: their calls have one form, and their grammars differ in the marks.`),
    ],
  };
}

/** The two settings of a node for undeclared members, by their name in the table. */
const SETTINGS = [
  { who: "this project", undeclared: "declared" },
  { who: "this project, undeclared properties allowed", undeclared: "any" },
] as const;

type JudgedBoth = Readonly<Record<(typeof SETTINGS)[number]["undeclared"], Judged>>;

/** Returns llama.cpp's own parser of grammars. Throws if there is no binary for this machine. */
async function llamaReader(): Promise<ReadGrammar> {
  const llama = await loadLlama();
  if (llama === undefined) throw new Error("The bench of schemas needs node-llama-cpp with a binary for this machine.");
  return async (grammar) => {
    const compiled: object = await llama.createGrammar({ grammar });
    if (!canTest(compiled)) throw new Error("This version of node-llama-cpp tests no texts.");
    return (text) => compiled._testText(text);
  };
}

/** Returns whether a grammar can test whole texts, which the types of node-llama-cpp omit. */
function canTest(grammar: object): grammar is { _testText(text: string): boolean } {
  return "_testText" in grammar;
}

async function judgeAll(cases: Iterable<SchemaCase>, step: number, read: ReadGrammar): Promise<readonly JudgedBoth[]> {
  const judged: JudgedBoth[] = [];
  let at = 0;
  for (const each of cases) {
    if (at % step === 0)
      judged.push({
        declared: await judge(each, { undeclared: "declared" }, read),
        any: await judge(each, { undeclared: "any" }, read),
      });
    at += 1;
  }
  return judged;
}

function rowOf(set: string, who: string, judged: readonly Judged[], outcomeOf: (of: Judged) => Outcome): Row {
  const counts = Object.fromEntries(Object.values(OUTCOMES).map((key) => [key, 0]));
  for (const each of judged) {
    const key = OUTCOMES[outcomeOf(each)];
    counts[key] = (counts[key] ?? 0) + 1;
  }
  return { set, who, of: judged.length, share: (100 * (counts.right ?? 0)) / judged.length, ...counts };
}

function timesOf(set: string, judged: readonly Judged[]): string {
  const times = judged.map(({ translationMs }) => translationMs);
  const texts = [0.5, 0.9, 0.99, 1].map((share) => `p${100 * share} ${percentile(times, share).toFixed(1)} ms`);
  return `${set}, translation of a schema to a grammar: ${texts.join(", ")}.`;
}

/** Returns the reasons for refusals with `strict`, most frequent first: messages, and keywords of pointers. */
function reasonsOf(set: string, judged: readonly Judged[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const { strict, why } of judged) {
    if ((strict !== "refused" && strict !== "broken") || why === undefined) continue;
    const reason = why.startsWith("#") ? (why.split("/").at(-1) ?? "") : why.replace(/ at #\S*:/, ":");
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, MAX_REASONS);
  return most.map(([reason, count]) => `${set}, refused with strict: ${count} for ${reason}`);
}
