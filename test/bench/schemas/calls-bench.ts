import { type GrammarInput, grammarOf, worthReading } from "../../../engine/caller-work/grammar-input.ts";
import { EngineError } from "../../../engine/errors.ts";
import type { CallableTool } from "../../../engine/grammar/output/tool-call-grammar.ts";
import { loadProfile } from "../../../engine/profiles/profile.ts";
import { threadCpuMs } from "../../support/thread-cpu.ts";
import { formatTable, percentile, type Row } from "../report.ts";
import { type LlamaParse, type Xgrammar, xgrammarReader } from "./readers.ts";
import { toolLists } from "./tool-lists.ts";

const FAMILIES = ["hermes", "glm-4.7", "kimi-k3", "qwen3.5", "minimax-m3", "deepseek-v4.1"];
const VOCABULARIES = [49_000, 150_000, 262_000];

type Case = { readonly kind: string; readonly input: Omit<GrammarInput, "reader"> };

/**
 * Measures, in processor time, how long grammars of tool lists take to be written and to be compiled by their readers.
 * Without an environment of vLLM below `SVC_TEST_ENGINES` llama.cpp is the only reader.
 */
export async function callsBench(repetitions: number, parse: LlamaParse): Promise<readonly string[]> {
  let skipped = 0;
  const cases = FAMILIES.flatMap((family) =>
    toolLists().map(({ kind, tools }): Case => {
      const held = tools.filter((tool) => isTaken(family, tool));
      skipped += tools.length - held.length;
      return { kind, input: inputOf(family, held) };
    }),
  );
  const measured = new Measured();
  for (let repetition = 0; repetition <= repetitions; repetition += 1)
    for (const { kind, input } of cases) {
      const isCounted = repetition > 0;
      const text = measured.timed(isCounted && kind, "write", () =>
        written({ ...input, reader: { name: "xgrammar" } }),
      );
      if (isCounted) measured.add(kind, "bytes", text.length);
      const own = written({ ...input, reader: { name: "llama.cpp" } });
      const parseMs = await parse(own);
      if (isCounted) measured.add(kind, "llama", parseMs);
    }
  for (const size of VOCABULARIES) {
    const xgrammar = xgrammarReader(size);
    if (xgrammar === undefined) break;
    await compileAll(xgrammar, cases, repetitions, size, measured);
    xgrammar.close();
  }
  return [
    `Grammars of calls, ms of a processor as p50 / p99 over lists, ${FAMILIES.length} families and ${repetitions} repetitions;` +
      ` xgrammar with one thread and made-up vocabularies. ${skipped} strict tools are left out, which a family refuses.`,
    measured.table(),
  ];
}

async function compileAll(
  { compile }: Xgrammar,
  cases: readonly Case[],
  repetitions: number,
  size: number,
  measured: Measured,
): Promise<void> {
  const grammars = cases.map(({ kind, input }) => ({
    kind,
    text: written({ ...input, reader: { name: "xgrammar" } }),
  }));
  for (let repetition = 0; repetition < repetitions; repetition += 1)
    for (const { kind, text } of grammars) {
      const { ms, bytes } = await compile(text);
      measured.add(kind, `${size}`, ms);
      if (repetition > 0) continue;
      measured.add(kind, "compiled", bytes / 1e6);
      await compile(text, [], true);
      measured.add(kind, "again", (await compile(text, [], true)).ms);
    }
}

function inputOf(family: string, tools: readonly CallableTool[]): Case["input"] {
  const { reasoning, toolCall, text } = loadProfile(family);
  return worthReading({
    ...{ tools, mustCall: false, maxCalls: Number.POSITIVE_INFINITY, constraint: undefined },
    ...{ reasoning: reasoning ? "opened" : "none", markers: { reasoning, toolCall, text } },
  });
}

function isTaken(family: string, tool: CallableTool): boolean {
  try {
    grammarOf(inputOf(family, [tool]));
    return true;
  } catch (error) {
    if (error instanceof EngineError) return false;
    throw error;
  }
}

function written(input: GrammarInput): string {
  const { text } = grammarOf(input);
  if (text === undefined) throw new Error("A list of tools has no grammar.");
  return text;
}

/** The measurements of each kind of list, by measure. */
class Measured {
  readonly #kinds = new Map<string, Map<string, number[]>>();

  add(kind: string, what: string, value: number): void {
    const found = this.#kinds.get(kind) ?? new Map<string, number[]>();
    this.#kinds.set(kind, found.set(what, [...(found.get(what) ?? []), value]));
  }

  /** Calls `work` and adds the time that it takes, unless `kind` is false. */
  timed<Result>(kind: string | false, what: string, work: () => Result): Result {
    const beganMs = threadCpuMs();
    const result = work();
    if (kind !== false) this.add(kind, what, threadCpuMs() - beganMs);
    return result;
  }

  table(): string {
    const keys = [
      ["write", "write"],
      ["bytes", "bytes"],
      ...VOCABULARIES.map((size) => [`${size}`, `xgrammar, ${size / 1000}k`] as const),
      ["again", "again"],
      ["compiled", "compiled MB"],
      ["llama", "llama.cpp"],
    ] as const;
    const rows = [...this.#kinds].map(
      ([kind, found]): Row => ({
        kind,
        ...Object.fromEntries(keys.map(([key]) => [key, spread(found.get(key) ?? [], key === "bytes" ? 0 : 1)])),
      }),
    );
    return formatTable([{ key: "kind", title: "tools" }, ...keys.map(([key, title]) => ({ key, title }))], rows);
  }
}

function spread(values: readonly number[], digits: number): string {
  if (values.length === 0) return "-";
  return [0.5, 0.99].map((share) => percentile(values, share).toFixed(digits)).join(" / ");
}
