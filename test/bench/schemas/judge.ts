import { EngineError } from "../../../engine/errors.ts";
import { GrammarRules } from "../../../engine/gbnf/grammar-rules.ts";
import { finishGrammar, parseSchema, withinBudget } from "../../../engine/grammar/output/constraint-grammar.ts";
import { GRAMMAR_WORK } from "../../../engine/grammar/output/output-grammar.ts";
import { type SchemaGrammarOptions, toGrammar } from "../../../engine/grammar/values/json-schema.ts";
import { WorkBudget } from "../../../engine/work-budget.ts";
import type { SchemaCase } from "./schema-case.ts";

/** Creates the matcher of a grammar's text. Throws if the grammar cannot be parsed. */
export type ReadGrammar = (grammar: string) => Promise<(text: string) => boolean>;

/** The result of one schema by the public procedure: all tests right, or the reason. */
export type Outcome = "right" | "refused" | "valid refused" | "invalid let through" | "broken";

export type Judged = {
  /** The result without `strict`, where unenforced keywords are left to the model. */
  readonly outcome: Outcome;
  /** The result with `strict`, where an unenforced keyword refuses the schema. */
  readonly strict: Outcome;
  /** The message of the refusal, or with `strict` the keyword's pointer. Undefined if the schema was not refused. */
  readonly why: string | undefined;
  /** The time of converting the schema to a grammar text, in milliseconds. */
  readonly translationMs: number;
};

/** Judges a schema by the public procedure: it is converted to a grammar, which is tested with each of its values. */
export async function judge(
  { schema, tests }: SchemaCase,
  options: SchemaGrammarOptions,
  read: ReadGrammar,
): Promise<Judged> {
  const startedMs = performance.now();
  const passed = () => performance.now() - startedMs;
  let found: { readonly text: string; readonly unenforced: readonly string[] };
  try {
    found = translate(schema, options);
  } catch (error) {
    const outcome = error instanceof EngineError ? "refused" : "broken";
    return { outcome, strict: outcome, why: messageOf(error), translationMs: passed() };
  }
  const translationMs = passed();
  const [unenforced] = found.unenforced;
  let outcome: Outcome;
  try {
    const allows = await read(found.text);
    // As in the public procedure, the last wrong test determines the result.
    const wrong = tests.filter(({ text, isValid }) => allows(text) !== isValid).at(-1);
    outcome = wrong === undefined ? "right" : wrong.isValid ? "valid refused" : "invalid let through";
  } catch (error) {
    return { outcome: "broken", strict: "broken", why: messageOf(error), translationMs };
  }
  return { outcome, strict: unenforced === undefined ? outcome : "refused", why: unenforced, translationMs };
}

function translate(schema: string, options: SchemaGrammarOptions) {
  return withinBudget("", () => {
    const rules = new GrammarRules(new WorkBudget(GRAMMAR_WORK));
    const { root, unenforced } = toGrammar(parseSchema(schema, "", rules.budget), rules, options);
    return { text: finishGrammar(root, rules, ""), unenforced };
  });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
