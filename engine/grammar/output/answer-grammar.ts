import type { OutputConstraint } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { anyObject, anyValue } from "../../gbnf/json-value.ts";
import type { UndeclaredMembers } from "../schema/schema-facets.ts";
import { toGrammar } from "../values/json-schema.ts";
import type { SchemaGrammar } from "../values/schema-converter.ts";
import { parseSchema, refuseUnenforced } from "./constraint-grammar.ts";

export const ANSWER_FIELD = "output_constraint.json_schema.schema_json";

export type AnswerGrammarOptions = {
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
