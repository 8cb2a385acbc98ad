import { EngineError } from "../../../engine/errors.ts";
import type { GrammarReader } from "../../../engine/gbnf/gbnf.ts";
import { GrammarRules } from "../../../engine/gbnf/grammar-rules.ts";
import { finishGrammar, parseSchema, withinBudget } from "../../../engine/grammar/output/constraint-grammar.ts";
import { GRAMMAR_WORK } from "../../../engine/grammar/output/output-grammar.ts";
import { type SchemaGrammarOptions, toGrammar } from "../../../engine/grammar/values/json-schema.ts";
import { WorkBudget } from "../../../engine/work-budget.ts";
import type { Row } from "../report.ts";

export type SchemaCase = {
  readonly name: string;
  readonly schema: string;
  readonly tests: readonly { readonly text: string; readonly isValid: boolean }[];
};

/** Tests which texts a grammar allows. Throws if the grammar cannot be parsed. */
export type ReadGrammar = (grammar: string, texts: readonly string[]) => Promise<readonly boolean[]>;

export type Outcome = "right" | "refused" | "valid refused" | "invalid let through" | "broken";

export type Judged = {
  readonly outcome: Outcome;
  readonly strict: Outcome;
  readonly why: string | undefined;
  readonly translationMs: number;
};

/** Judges a schema by the public procedure: it is converted to a grammar, which is tested with each of its values. */
export async function judge(
  { schema, tests }: SchemaCase,
  options: SchemaGrammarOptions,
  read: ReadGrammar,
  reader?: GrammarReader,
): Promise<Judged> {
  const startedMs = performance.now();
  const passed = () => performance.now() - startedMs;
  let found: { readonly text: string; readonly unenforced: readonly string[] };
  try {
    found = translate(schema, options, reader);
  } catch (error) {
    const outcome = error instanceof EngineError ? "refused" : "broken";
    return { outcome, strict: outcome, why: messageOf(error), translationMs: passed() };
  }
  const translationMs = passed();
  const [unenforced] = found.unenforced;
  let outcome: Outcome;
  try {
    const allowed = await read(
      found.text,
      tests.map(({ text }) => text),
    );
    // As in the public procedure, the last wrong test determines the result.
    const wrong = tests.filter(({ isValid }, at) => allowed[at] !== isValid).at(-1);
    outcome = wrong === undefined ? "right" : wrong.isValid ? "valid refused" : "invalid let through";
  } catch (error) {
    return { outcome: "broken", strict: "broken", why: messageOf(error), translationMs };
  }
  return { outcome, strict: unenforced === undefined ? outcome : "refused", why: unenforced, translationMs };
}

function translate(schema: string, options: SchemaGrammarOptions, reader?: GrammarReader) {
  return withinBudget("", () => {
    const rules = new GrammarRules(new WorkBudget(GRAMMAR_WORK), reader);
    const { root, unenforced } = toGrammar(parseSchema(schema, "", rules.budget), rules, options);
    return { text: finishGrammar(root, rules, ""), unenforced };
  });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The figures published for MaskBench in March 2025; `broken` are time-outs, crashes and lack of memory. */
export const PUBLISHED: readonly Row[] = [
  { who: "LLGuidance 0.7.10", right: 8909, refused: 2377, validRefused: 20, invalidLet: 0, broken: 0 },
  { who: "XGrammar 0.1.17", right: 8122, refused: 90, validRefused: 1408, invalidLet: 1368, broken: 278 },
  { who: "Outlines core 0.2.3", right: 7050, refused: 1773, validRefused: 1415, invalidLet: 822, broken: 248 },
  {
    who: "llama.cpp (its own, 0.3.8 of its binding)",
    right: 6505,
    refused: 1301,
    validRefused: 2850,
    invalidLet: 649,
    broken: 1,
  },
].map((row): Row => ({ set: "MaskBench", of: 11_306, share: (100 * row.right) / 11_306, ...row }));
