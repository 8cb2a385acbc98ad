import type { OutputConstraint } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { anyObject, anyValue } from "../../gbnf/json-value.ts";
import type { UndeclaredMembers } from "../schema/schema-facets.ts";
import { toGrammar } from "../values/json-schema.ts";
import type { SchemaGrammar } from "../values/schema-converter.ts";
import { parseSchema, refuseUnenforced } from "./constraint-grammar.ts";

/** The field that holds the schema of the answer, for error messages. */
export const ANSWER_FIELD = "output_constraint.json_schema.schema_json";

/** The settings of the grammar of an answer. */
export type AnswerGrammarOptions = {
  /** Whether a schema that is not strict allows any value. Default: false. */
  readonly onlyStrict?: boolean;
  /** Which members an object may have where its schema declares some and is silent about others. Default: `declared`. */
  readonly undeclared?: UndeclaredMembers | undefined;
};

/**
 * Makes the grammar of a constrained answer: one JSON object, or one value of a schema, and nothing behind it.
 * Undefined where nothing is constrained. Where `onlyStrict` says so a schema that is not strict allows any value.
 * Throws `EngineError` INVALID_SCHEMA for a schema that is invalid, too costly or cannot be satisfied, and under
 * `strict` for one with keywords that the grammar does not enforce.
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
