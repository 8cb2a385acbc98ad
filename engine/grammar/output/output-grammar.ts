import type { OutputConstraint } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { notOfThisAnswer } from "../../errors.ts";
import {
  charsOf,
  choice,
  type Gbnf,
  type GrammarReader,
  literal,
  markup,
  optional,
  repeat,
  rule,
  sequence,
} from "../../gbnf/gbnf.ts";
import { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { grammarBehind } from "../../gbnf/grammar-walk.ts";
import { FENCE, hasExamples, type OutputMarkers } from "../../output-parser/markers.ts";
import { formOf } from "../../tool-calls/forms.ts";
import { WorkBudget } from "../../work-budget.ts";
import { freeTextUntil, type TextEnd, textUntil } from "../expressions/text-grammar.ts";
import { CostlySchema } from "../schema/schema-document.ts";
import { ANSWER_FIELD, answerGrammar, finishGrammar, withinBudget } from "./constraint-grammar.ts";
import { type ToolCallGrammar, type ToolCallGrammarOptions, toolCallGrammar } from "./tool-call-grammar.ts";

export type OutputGrammarOptions = Pick<
  ToolCallGrammarOptions,
  "tools" | "maxCalls" | "argumentTypes" | "undeclared"
> & {
  readonly markers: OutputMarkers;
  readonly mustCall: boolean;
  readonly constraint: OutputConstraint | undefined;
  readonly reasoning: "opened" | "may-open" | "none";
  /** Whether to skip schemas that are neither strict nor of mandatory calls. Default: false. */
  readonly onlyPromised?: boolean;
  /** The reader of the grammar. Default: llama.cpp, without tokens. */
  readonly reader?: GrammarReader;
  /** The text so far, of which the grammar matches the rest. Default: none. */
  readonly behind?: string;
};

const FENCES = [...FENCE.signs].map((sign) => literal(sign.repeat(FENCE.minLength)));

export const BEHIND_REASONING = "answer";

export type OutputGrammar = {
  readonly text: string | undefined;
  /** Whether schemas without `strict` cost too much and are not enforced. */
  readonly gaveUp: boolean;
};

/** The work limit for the grammar of a request, in units of `WorkBudget`: about 25 ms of one core. */
export const GRAMMAR_WORK = 50_000;

/**
 * Creates the grammar of the whole output: calls if they are mandatory, a JSON value if the answer is constrained,
 * either if both are possible. If only calls are constrained, other text is free and a call begins wherever the output
 * parser detects one. Throws `EngineError` INVALID_SCHEMA, for a costly schema only if `strict` or mandatory calls
 * require it.
 */
export function outputGrammar(options: OutputGrammarOptions): OutputGrammar {
  const budget = new WorkBudget(GRAMMAR_WORK);
  if (options.onlyPromised) return { text: grammarText(options, true, budget), gaveUp: true };
  if (!holdsUnpromised(options)) return { text: grammarText(options, false, budget), gaveUp: false };
  // Strict schemas first: the rest of the budget is the limit for the others, so that both need no second budget.
  const promised = grammarText(options, true, budget);
  try {
    return { text: grammarText(options, false, budget), gaveUp: false };
  } catch (error) {
    if (!(error instanceof CostlySchema)) throw error;
    return { text: promised, gaveUp: true };
  }
}

/** Returns whether the grammar depends on a schema without `strict`: tagged calls need the types of arguments. */
function holdsUnpromised(options: OutputGrammarOptions): boolean {
  const { markers, constraint } = options;
  if (!hasUnpromised(options)) return false;
  const isFree = constraint?.kind?.$case === "jsonSchema" && !constraint.kind.value.strict;
  return isFree || needsArgumentTypes(markers);
}

/** Returns whether the form of calls makes the grammar depend on the schemas of all tools, strict or not. */
export function needsArgumentTypes({ toolCall }: OutputMarkers): boolean {
  return toolCall !== undefined && formOf(toolCall).markup(toolCall)?.tags !== undefined;
}

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
  const rules = new GrammarRules(budget, options.reader);
  return withinBudget(field, () => {
    const whole = rootOf(options, rules, onlyPromised);
    const root = whole && options.behind ? grammarBehind(whole, rules, options.behind) : whole;
    if (whole && !root) throw notOfThisAnswer();
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
    if (isFree) return freeText(rules, options, calls);
    return choice(...(calls ? [behindText(markers, calls.root)] : []), ...(value ? [inText(markers, value)] : []));
  });
  const thought = () => thinking(rules, options, calls, isFree);
  const open = isFree ? undefined : markers.reasoning?.open;
  if (reasoning === "opened") return thought();
  return reasoning === "may-open" && open !== undefined ? choice(sequence(markup(open), thought()), answer) : answer;
}

/** Matches a value as the whole visible text, between its marks. The prompt may already contain the first mark. */
function inText({ text }: OutputMarkers, value: Gbnf): Gbnf {
  if (text === undefined) return value;
  return sequence(optional(markup(text.start ?? "")), optional(markup(text.open)), value, optional(markup(text.close)));
}

function behindText({ text }: OutputMarkers, calls: Gbnf): Gbnf {
  if (text === undefined) return calls;
  const before = [text.start ?? "", text.open, text.close].map((mark) => optional(markup(mark)));
  return sequence(...before, calls);
}

function freeText(rules: GrammarRules, options: OutputGrammarOptions, calls: ToolCallGrammar | undefined): Gbnf {
  const { markers } = options;
  const { reasoning } = markers;
  const opens: readonly TextEnd[] = reasoning
    ? [{ mark: reasoning.open, behind: thinking(rules, options, calls, true), onlyFirst: !reasoning.anywhere }]
    : [];
  const ends = [...fenced(calls?.openers ?? [], markers, BEHIND_REASONING), ...opens];
  return until(rules, ends, true);
}

/** Matches text up to one of the marks, in the form that the grammar's reader holds cheaply. */
function until(rules: GrammarRules, ends: readonly TextEnd[], mayEnd: boolean): Gbnf {
  return rules.reader.name === "xgrammar" ? freeTextUntil(rules, ends) : textUntil(rules, ends, mayEnd);
}

/** Lets text continue where a code fence closes after calls: the calls were examples in it. */
function fenced(calls: readonly TextEnd[], markers: OutputMarkers, around: string): readonly TextEnd[] {
  if (!hasExamples(markers)) return calls;
  const close = sequence(repeat(charsOf("\n\n"), 1, 2), repeat(literal(" "), 0, FENCE.maxIndent), choice(...FENCES));
  const more = optional(sequence(close, rule(around)));
  return calls.map((each) => (each.onlyFirst ? each : { ...each, behind: sequence(each.behind, more) }));
}

function thinking(
  rules: GrammarRules,
  options: OutputGrammarOptions,
  calls: ToolCallGrammar | undefined,
  mayEnd: boolean,
): Gbnf {
  const { markers } = options;
  const { reasoning, text } = markers;
  const answer = rule(BEHIND_REASONING);
  if (reasoning === undefined) return answer;
  return rules.named("reasoning", () => {
    const { afterClose } = reasoning;
    const lead = (afterClose.trim() === "" ? [...afterClose] : [afterClose]).map((part) => optional(literal(part)));
    const close = { mark: reasoning.close, behind: mayEnd ? answer : sequence(...lead, answer) };
    const said = text === undefined ? [] : [{ mark: text.open, behind: answer }];
    const called = reasoningEnds(reasoning, calls);
    const ends = [close, ...said, ...(mayEnd ? fenced(called, markers, "reasoning") : called)];
    return until(rules, ends, mayEnd);
  });
}

function reasoningEnds(
  { endedByCall }: NonNullable<OutputMarkers["reasoning"]>,
  calls: ToolCallGrammar | undefined,
): readonly TextEnd[] {
  if (!endedByCall || calls === undefined) return [];
  return endedByCall === "as-written" ? calls.written() : calls.openers.filter(({ onlyFirst }) => !onlyFirst);
}
