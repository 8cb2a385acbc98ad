import type { OutputConstraint } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { charsOf, choice, type Gbnf, literal, optional, repeat, rule, sequence } from "../../gbnf/gbnf.ts";
import { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { FENCE, hasExamples, type OutputMarkers } from "../../output-parser/markers.ts";
import { formOf } from "../../tool-calls/forms.ts";
import { WorkBudget } from "../../work-budget.ts";
import { type TextEnd, textUntil } from "../expressions/text-until.ts";
import { CostlySchema } from "../schema/invalid-schema.ts";
import { ANSWER_FIELD, answerGrammar } from "./answer-grammar.ts";
import { finishGrammar, withinBudget } from "./constraint-grammar.ts";
import { type ToolCallGrammar, type ToolCallGrammarOptions, toolCallGrammar } from "./tool-call-grammar.ts";

/** The parts of the output that a request fixes, and how the model writes them. */
export type OutputGrammarOptions = Pick<
  ToolCallGrammarOptions,
  "tools" | "maxCalls" | "argumentTypes" | "undeclared"
> & {
  /** The marks by which the model tells reasoning and calls from text. */
  readonly markers: OutputMarkers;
  /** Whether the output has to be calls. */
  readonly mustCall: boolean;
  /** The constraint on the visible text, unless it is calls; undefined where it is free. */
  readonly constraint: OutputConstraint | undefined;
  /** Whether the output begins inside the reasoning, may open it, or has none. */
  readonly reasoning: "opened" | "may-open" | "none";
  /** Whether schemas that are not strict, of calls that need not come, are given up from the start. Default: false. */
  readonly onlyPromised?: boolean;
};

/** The fewest characters of each kind that close a fence of code. */
const FENCES = [...FENCE.signs].map((sign) => literal(sign.repeat(FENCE.minLength)));

/** The name of the rule that holds from the end of the reasoning on. */
export const BEHIND_REASONING = "answer";

/** The grammar of an output. */
export type OutputGrammar = {
  /** The grammar's text, with the rules `root` and `answer` to begin with; undefined where nothing is fixed. */
  readonly text: string | undefined;
  /** Whether schemas that are not strict cost too much, so that what they were to hold may be of any form. */
  readonly gaveUp: boolean;
};

/** The work that making the grammar of an answer may cost, in steps of a `WorkBudget`: some 25 ms of one core. */
export const GRAMMAR_WORK = 50_000;

/**
 * Makes the grammar of all that a model writes, reasoning and all. Calls where they are asked for, a JSON value where
 * one is, either of them where the model has the choice. Where only calls are fixed, the other text is free, and a call
 * begins wherever the output parser takes it for begun: so the arguments of a strict tool are held to its schema in
 * every form of call.
 *
 * Reasoning is free too. Where the answer is fixed it must come to an end, for the answer has to come.
 *
 * Throws `EngineError` INVALID_SCHEMA: for a schema that is broken, and for one that costs too much where the caller
 * was promised to get it, by `strict` or by having to call. Other schemas that cost too much are given up.
 */
export function outputGrammar(options: OutputGrammarOptions): OutputGrammar {
  const budget = new WorkBudget(GRAMMAR_WORK);
  if (options.onlyPromised) return { text: grammarText(options, true, budget), gaveUp: true };
  if (!holdsUnpromised(options)) return { text: grammarText(options, false, budget), gaveUp: false };
  // First, as what is left afterwards is all that the others may cost: both together are not worth a second budget.
  const promised = grammarText(options, true, budget);
  try {
    return { text: grammarText(options, false, budget), gaveUp: false };
  } catch (error) {
    if (!(error instanceof CostlySchema)) throw error;
    return { text: promised, gaveUp: true };
  }
}

/** Returns whether the grammar depends on some schema without a promise: calls say the types of arguments by tags only. */
function holdsUnpromised(options: OutputGrammarOptions): boolean {
  const { markers, constraint } = options;
  if (!hasUnpromised(options)) return false;
  const isFree = constraint?.kind?.$case === "jsonSchema" && !constraint.kind.value.strict;
  return isFree || tellsTypes(markers);
}

/** Returns whether calls are written so that the grammar depends on the schemas of all tools, be they strict or not. */
export function tellsTypes({ toolCall }: OutputMarkers): boolean {
  return toolCall !== undefined && formOf(toolCall).markup(toolCall)?.tags !== undefined;
}

/** Returns whether some schema is held to without a promise. */
export function hasUnpromised({
  constraint,
  mustCall,
  tools,
}: Pick<OutputGrammarOptions, "constraint" | "mustCall" | "tools">): boolean {
  if (mustCall) return false;
  const kind = constraint?.kind;
  return (kind?.$case === "jsonSchema" && !kind.value.strict) || tools.some(({ strict }) => !strict);
}

function grammarText(options: OutputGrammarOptions, onlyPromised: boolean, budget: WorkBudget): string | undefined {
  const field = options.mustCall || options.constraint === undefined ? "tools" : ANSWER_FIELD;
  const rules = new GrammarRules(budget);
  return withinBudget(field, () => {
    const root = rootOf(options, rules, onlyPromised);
    return root && finishGrammar(root, rules, field);
  });
}

function rootOf(options: OutputGrammarOptions, rules: GrammarRules, onlyPromised: boolean): Gbnf | undefined {
  const { markers, tools, mustCall, constraint, reasoning } = options;
  const held = mustCall ? "all" : onlyPromised ? "only-strict" : "strict";
  const calls =
    markers.toolCall && tools.length > 0
      ? toolCallGrammar({ ...options, markers: markers.toolCall, held }, rules)
      : undefined;
  const value = mustCall
    ? undefined
    : answerGrammar(constraint, rules, { onlyStrict: onlyPromised, undeclared: options.undeclared })?.root;
  const isFree = !mustCall && value === undefined;
  if (isFree && calls === undefined) return undefined;
  const answer = rules.named(BEHIND_REASONING, () => {
    if (isFree) return freeText(rules, markers, calls);
    return choice(...(calls ? [behindText(markers, calls.root)] : []), ...(value ? [inText(markers, value)] : []));
  });
  const thought = () => thinking(rules, markers, calls, isFree);
  const open = isFree ? undefined : markers.reasoning?.open;
  if (reasoning === "opened") return thought();
  return reasoning === "may-open" && open !== undefined ? choice(sequence(literal(open), thought()), answer) : answer;
}

/** Matches a value as all of the visible text, between its marks. The prompt may have had the first of them. */
function inText({ text }: OutputMarkers, value: Gbnf): Gbnf {
  if (text === undefined) return value;
  return sequence(
    optional(literal(text.start ?? "")),
    optional(literal(text.open)),
    value,
    optional(literal(text.close)),
  );
}

/** Matches calls behind a visible text of which nothing was said. */
function behindText({ text }: OutputMarkers, calls: Gbnf): Gbnf {
  if (text === undefined) return calls;
  const before = [text.start ?? "", text.open, text.close].map((mark) => optional(literal(mark)));
  return sequence(...before, calls);
}

/** Matches visible text in which calls may begin, and reasoning where nothing was said yet. */
function freeText(rules: GrammarRules, markers: OutputMarkers, calls: ToolCallGrammar | undefined): Gbnf {
  const { reasoning } = markers;
  const opens: readonly TextEnd[] = reasoning
    ? [{ mark: reasoning.open, behind: thinking(rules, markers, calls, true), onlyFirst: !reasoning.anywhere }]
    : [];
  return textUntil(rules, [...fenced(calls?.openers ?? [], markers, BEHIND_REASONING), ...opens], true);
}

/**
 * Lets the text of the rule `around` go on behind calls where a fence of code closes there: these were examples in it.
 */
function fenced(calls: readonly TextEnd[], markers: OutputMarkers, around: string): readonly TextEnd[] {
  if (!hasExamples(markers)) return calls;
  const close = sequence(repeat(charsOf("\n\n"), 1, 2), repeat(literal(" "), 0, FENCE.maxIndent), choice(...FENCES));
  const more = optional(sequence(close, rule(around)));
  return calls.map((each) => (each.onlyFirst ? each : { ...each, behind: sequence(each.behind, more) }));
}

/** Matches reasoning from behind its opening mark on, and the answer. */
function thinking(
  rules: GrammarRules,
  markers: OutputMarkers,
  calls: ToolCallGrammar | undefined,
  mayEnd: boolean,
): Gbnf {
  const { reasoning, text } = markers;
  const answer = rule(BEHIND_REASONING);
  if (reasoning === undefined) return answer;
  return rules.named("reasoning", () => {
    const { afterClose } = reasoning;
    const lead = (afterClose.trim() === "" ? [...afterClose] : [afterClose]).map((part) => optional(literal(part)));
    const close = { mark: reasoning.close, behind: mayEnd ? answer : sequence(...lead, answer) };
    const said = text === undefined ? [] : [{ mark: text.open, behind: answer }];
    const called = reasoningEnds(reasoning, calls);
    return textUntil(rules, [close, ...said, ...(mayEnd ? fenced(called, markers, "reasoning") : called)], mayEnd);
  });
}

/** Returns the marks of calls that end a family's reasoning, and the calls behind them. */
function reasoningEnds(
  { endedByCall }: NonNullable<OutputMarkers["reasoning"]>,
  calls: ToolCallGrammar | undefined,
): readonly TextEnd[] {
  if (!endedByCall || calls === undefined) return [];
  return endedByCall === "as-written" ? calls.written() : calls.openers.filter(({ onlyFirst }) => !onlyFirst);
}
