import type { OutputConstraint } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { anyObject, anyValue } from "../../gbnf/json-value.ts";
import type { UndeclaredMembers } from "../schema/schema-facets.ts";
import { toGrammar } from "../values/json-schema.ts";
import type { SchemaGrammar } from "../values/schema-converter.ts";
import { parseSchema, refuseUnenforced } from "./constraint-grammar.ts";

export const ANSWER_FIELD = "output_constraint.json_schema.schema_json";

export type AnswerGrammarOptions = {
  /** Whether a schema without `strict` is not enforced. Default: false. */
  readonly onlyStrict?: boolean;
  /** Undeclared members of objects. Default: `declared`. */
  readonly undeclared?: UndeclaredMembers | undefined;
};

/**
 * Creates the grammar of a constrained answer: one JSON object, or one value of a schema, and nothing after it.
 * Undefined without constraint. Throws `EngineError` INVALID_SCHEMA for a schema that is invalid, too costly or
 * unsatisfiable, and with `strict` for one with unenforced keywords.
 */
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
