import type { OutputConstraint } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Gbnf, grammarText } from "../../gbnf/gbnf.ts";
import { type GrammarRules, prune } from "../../gbnf/grammar-rules.ts";
import { anyObject, anyValue } from "../../gbnf/json-value.ts";
import { type WorkBudget, WorkSpent } from "../../work-budget.ts";
import type { UndeclaredMembers } from "../schema/schema-alternatives.ts";
import { costlySchema, invalidSchema, MAX_SCHEMA_BYTES } from "../schema/schema-document.ts";
import { type SchemaGrammar, toGrammar } from "../values/json-schema.ts";

/** The maximum length of a grammar in ASCII characters: longer ones cost too much to parse and to cache. */
const MAX_GRAMMAR_LENGTH = 256 * 1024;

/** Charges for reading. Throws `EngineError` INVALID_SCHEMA, and `CostlySchema` if too long or over the budget. */
export function parseSchema(text: string, at: string, budget: WorkBudget): unknown {
  if (Buffer.byteLength(text) > MAX_SCHEMA_BYTES)
    throw costlySchema(`${at}#`, "is too long", { max_bytes: String(MAX_SCHEMA_BYTES) });
  withinBudget(at, () => budget.payForText(text.length));
  try {
    return JSON.parse(text);
  } catch {
    throw invalidSchema(`${at}#`, "is not valid JSON");
  }
}

/** Returns the result of `make`. Throws `CostlySchema` for the field `at` when the budget is used up. */
export function withinBudget<T>(at: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    // A chain too long for the stack is too costly as well.
    if (error instanceof WorkSpent || error instanceof RangeError)
      throw costlySchema(`${at}#`, "is too costly to be turned into a grammar");
    throw error;
  }
}

/** Throws `EngineError` INVALID_SCHEMA for the first of the keywords: `strict` requires all of them. */
export function refuseUnenforced(unenforced: readonly string[]): void {
  const [first] = unenforced;
  if (first === undefined) return;
  throw invalidSchema(first, "this keyword cannot be enforced, which `strict` asks for", { fault: "not_enforceable" });
}

/** Throws `EngineError` INVALID_SCHEMA if the text is longer than 256 KiB or nothing can match. */
export function finishGrammar(root: Gbnf, rules: GrammarRules, at: string): string {
  const pruned = prune(root, rules.all, rules.finishing);
  if (pruned === undefined) throw invalidSchema(`${at}#`, "no value can satisfy it");
  const text = grammarText(pruned.root, pruned.rules, MAX_GRAMMAR_LENGTH, rules.reader);
  if (text === undefined) throw costlySchema(`${at}#`, "is too complex");
  return text;
}

export const ANSWER_FIELD = "output_constraint.json_schema.schema_json";

type AnswerGrammarOptions = {
  readonly onlyStrict?: boolean;
  readonly undeclared?: UndeclaredMembers | undefined;
};

/** One JSON object or one value of a schema, and nothing after it. Throws `EngineError` INVALID_SCHEMA. */
export function answerGrammar(
  constraint: OutputConstraint | undefined,
  rules: GrammarRules,
  { onlyStrict = false, undeclared }: AnswerGrammarOptions = {},
): SchemaGrammar | undefined {
  switch (constraint?.kind?.$case) {
    case "jsonObject":
      return { root: anyObject(rules), unenforced: [] };
    case "jsonSchema": {
      const { schemaJson, strict } = constraint.kind.value;
      if (onlyStrict && !strict) return { root: anyValue(rules), unenforced: [] };
      const grammar = toGrammar(parseSchema(schemaJson, ANSWER_FIELD, rules.budget), rules, {
        at: ANSWER_FIELD,
        undeclared,
      });
      if (strict) refuseUnenforced(grammar.unenforced);
      return grammar;
    }
    case undefined:
      return undefined;
  }
}
