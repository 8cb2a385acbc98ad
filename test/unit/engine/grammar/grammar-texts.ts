import { GrammarRules } from "../../../../engine/gbnf/grammar-rules.ts";
import { answerGrammar, finishGrammar } from "../../../../engine/grammar/output/constraint-grammar.ts";
import { type ToolCallGrammarOptions, toolCallGrammar } from "../../../../engine/grammar/output/tool-call-grammar.ts";
import type { OutputConstraint } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";

/** Returns the grammar of a constrained answer as text; "" without constraint. */
export function answerText(constraint: OutputConstraint): string {
  const rules = new GrammarRules();
  const found = answerGrammar(constraint, rules);
  return found ? finishGrammar(found.root, rules, "") : "";
}

/** Returns the grammar of tool calls as text. */
export function callText(options: ToolCallGrammarOptions): string {
  const rules = new GrammarRules();
  return finishGrammar(toolCallGrammar(options, rules).root, rules, "tools");
}
