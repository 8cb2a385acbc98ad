import type { OutputConstraint } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { choice, type Gbnf, literal, optional, rule, sequence } from "../../gbnf/gbnf.ts";
import { GrammarRules } from "../../gbnf/grammar-rules.ts";
import type { OutputMarkers } from "../../output-parser/markers.ts";
import { type TextEnd, textUntil } from "../expressions/text-until.ts";
import { ANSWER_FIELD, answerGrammar } from "./answer-grammar.ts";
import { finishGrammar } from "./constraint-grammar.ts";
import { type ToolCallGrammar, type ToolCallGrammarOptions, toolCallGrammar } from "./tool-call-grammar.ts";

/** The parts of the output that a request fixes, and how the model writes them. */
export type OutputGrammarOptions = Pick<ToolCallGrammarOptions, "tools" | "maxCalls" | "argumentTypes"> & {
  /** The marks by which the model tells reasoning and calls from text. */
  readonly markers: OutputMarkers;
  /** Whether the output has to be calls. */
  readonly mustCall: boolean;
  /** The constraint on the visible text, unless it is calls; undefined where it is free. */
  readonly constraint: OutputConstraint | undefined;
  /** Whether the output begins inside the reasoning, may open it, or has none. */
  readonly reasoning: "opened" | "may-open" | "none";
};

/** The name of the rule that holds from the end of the reasoning on. */
export const BEHIND_REASONING = "answer";

/**
 * Writes the grammar of all that a model writes, reasoning and all, with the rules `root` and `answer` to begin with;
 * undefined where nothing is fixed. It asks for calls where they are asked for, for a JSON value where one is, for
 * either of them where the model has the choice. Where only calls are fixed, the other text is free, and a call begins
 * wherever the output parser takes it for begun: so the arguments of a strict tool are held to its schema in every form
 * of call. Reasoning is free too; where the answer is fixed it must come to an end, for the answer has to come. Throws
 * `EngineError` INVALID_SCHEMA.
 */
export function outputGrammar(options: OutputGrammarOptions): string | undefined {
  const { markers, tools, mustCall, constraint, reasoning } = options;
  const rules = new GrammarRules();
  const calls =
    markers.toolCall && tools.length > 0
      ? toolCallGrammar({ ...options, markers: markers.toolCall, onlyStrict: !mustCall }, rules)
      : undefined;
  const value = mustCall ? undefined : answerGrammar(constraint, rules)?.root;
  const isFree = !mustCall && value === undefined;
  if (isFree && calls === undefined) return undefined;
  const answer = rules.named(BEHIND_REASONING, () =>
    isFree ? freeText(rules, markers, calls) : choice(...(calls ? [calls.root] : []), ...(value ? [value] : [])),
  );
  const thought = () => thinking(rules, markers, calls, isFree);
  const open = isFree ? undefined : markers.reasoning?.open;
  const root =
    reasoning === "opened"
      ? thought()
      : reasoning === "may-open" && open !== undefined
        ? choice(sequence(literal(open), thought()), answer)
        : answer;
  return finishGrammar(root, rules, value === undefined ? "tools" : ANSWER_FIELD);
}

/** Matches visible text in which calls may begin, and reasoning where nothing was said yet. */
function freeText(rules: GrammarRules, markers: OutputMarkers, calls: ToolCallGrammar | undefined): Gbnf {
  const { reasoning } = markers;
  const opens: readonly TextEnd[] = reasoning
    ? [{ mark: reasoning.open, behind: thinking(rules, markers, calls, true), onlyFirst: true }]
    : [];
  return textUntil(rules, [...(calls?.openers ?? []), ...opens], true);
}

/** Matches reasoning from behind its opening mark on, and the answer. */
function thinking(
  rules: GrammarRules,
  { reasoning }: OutputMarkers,
  calls: ToolCallGrammar | undefined,
  mayEnd: boolean,
): Gbnf {
  const answer = rule(BEHIND_REASONING);
  if (reasoning === undefined) return answer;
  return rules.named("reasoning", () => {
    const lead = [...reasoning.afterClose].map((char) => optional(literal(char)));
    const close = { mark: reasoning.close, behind: mayEnd ? answer : sequence(...lead, answer) };
    const opens = reasoning.endedByCall ? (calls?.openers ?? []).filter(({ onlyFirst }) => !onlyFirst) : [];
    return textUntil(rules, [close, ...opens], mayEnd);
  });
}
