import { ownCases } from "../../support/schemas/own-cases.ts";
import { type BenchResult, percentile, type Row } from "../report.ts";
import type { BenchSettings } from "../settings.ts";
import { besideLlama, besideVllm, judgeAnswers } from "./answers.ts";
import { callTokens } from "./call-tokens.ts";
import { callsBench } from "./calls-bench.ts";
import { type Judged, judge, type Outcome, PUBLISHED, type ReadGrammar, type SchemaCase } from "./judge.ts";
import { publicSets } from "./public-sets.ts";
import { llamaReader, xgrammarReader } from "./readers.ts";

const QUICK_STEP = 20;
const OWN_CASES = 500;
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
 * the public collections in the folder of `--data`. With `--vllm`, the project's cases also by xgrammar, and by answers
 * of that vLLM and of the llama backend. Then it measures the grammars of calls. It asserts nothing.
 */
export async function schemasBench({ quick, data, vllm, model, repetitions }: BenchSettings): Promise<BenchResult> {
  const { read, parse } = await llamaReader();
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
  if (vllm !== undefined) {
    const found = await besideEngine(
      own.cases.filter((_, at) => at % step === 0),
      vllm,
    );
    rows.push(...found.rows);
    notes.push(...found.notes);
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
      ...(await callsBench(repetitions, parse)),
      ...(await callTokens(repetitions, model)),
    ],
  };
}

/** Judges cases by xgrammar, and by strict answers of a vLLM and of the llama backend, both with the same weights. */
async function besideEngine(cases: readonly SchemaCase[], vllm: string): Promise<Pick<BenchResult, "rows" | "notes">> {
  const rows: Row[] = [];
  const notes: string[] = [];
  const add = (who: string, judged: readonly Judged[]) => {
    rows.push(rowOf("own cases", who, judged, ({ strict }) => strict));
    notes.push(...reasonsOf(who, judged));
  };
  const compileMs: number[] = [];
  const xgrammar = xgrammarReader(150_000);
  if (xgrammar === undefined) throw new Error("Beside a vLLM the bench of schemas needs its environment.");
  const read: ReadGrammar = async (grammar, texts) => {
    const { ms, allowed } = await xgrammar.compile(grammar, texts);
    compileMs.push(ms);
    return allowed;
  };
  const judged: Judged[] = [];
  for (const each of cases) judged.push(await judge(each, { undeclared: "declared" }, read, { name: "xgrammar" }));
  xgrammar.close();
  add("xgrammar, strict", judged);
  notes.push(`xgrammar with 150,000 tokens, compiling a grammar: ${percentilesOf(compileMs)}.`);
  for (const [who, start] of [
    ["answers of vLLM", () => besideVllm(vllm)],
    ["answers of llama", besideLlama],
  ] as const) {
    const backend = await start();
    add(who, await judgeAnswers(backend, cases));
    await backend.close();
  }
  return { rows, notes };
}

const SETTINGS = [
  { who: "this project", undeclared: "declared" },
  { who: "this project, undeclared properties allowed", undeclared: "any" },
] as const;

type JudgedBoth = Readonly<Record<(typeof SETTINGS)[number]["undeclared"], Judged>>;

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
  return `${set}, translation of a schema to a grammar: ${percentilesOf(times)}.`;
}

function percentilesOf(times: readonly number[]): string {
  return [0.5, 0.9, 0.99, 1].map((share) => `p${100 * share} ${percentile(times, share).toFixed(1)} ms`).join(", ");
}

function reasonsOf(set: string, judged: readonly Judged[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const { strict, why } of judged) {
    if (strict === "right" || why === undefined) continue;
    const reason = why.startsWith("#") ? (why.split("/").at(-1) ?? "") : why.replace(/ at #\S*:/, ":");
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, MAX_REASONS);
  return most.map(([reason, count]) => `${set}, not right with strict: ${count} for ${reason}`);
}
