import type { OutputConstraint } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { notOfThisAnswer } from "../../errors.ts";
import {
  charsOf,
  choice,
  type Gbnf,
  type GrammarReader,
  literal,
  markup,
  NEVER,
  optional,
  repeat,
  rule,
  sequence,
} from "../../gbnf/gbnf.ts";
import { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { grammarBehind } from "../../gbnf/grammar-walk.ts";
import { FENCE, hasExamples, marksOfText, type OutputMarkers } from "../../output-parser/markers.ts";
import { WorkBudget } from "../../work-budget.ts";
import { freeText, type TextEnd } from "../expressions/text-grammar.ts";
import { CostlySchema } from "../schema/schema-document.ts";
import { ANSWER_FIELD, answerGrammar, finishGrammar, withinBudget } from "./constraint-grammar.ts";
import { noCalls, type ToolCallGrammar, type ToolCallGrammarOptions, toolCallGrammar } from "./tool-call-grammar.ts";

export type OutputGrammarOptions = Pick<
  ToolCallGrammarOptions,
  "tools" | "maxCalls" | "argumentTypes" | "undeclared"
> & {
  readonly markers: OutputMarkers;
  readonly mustCall: boolean;
  /** Whether the model sees tools of which it may call none. Default: false. */
  readonly mustNotCall?: boolean;
  readonly constraint: OutputConstraint | undefined;
  readonly reasoning: "opened" | "may-open" | "none";
  /** Whether to skip the schema of an answer that is not strict. Default: false. */
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
 * parser detects one: its form is always held, its schema if `strict`. Throws `EngineError` INVALID_SCHEMA, for a costly
 * schema only if `strict` or mandatory calls require it.
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

/** Returns whether the grammar holds a schema that it may give up: that of an answer without `strict`. */
export function holdsUnpromised({
  constraint,
  mustCall,
}: Pick<OutputGrammarOptions, "constraint" | "mustCall">): boolean {
  const kind = constraint?.kind;
  return !mustCall && kind?.$case === "jsonSchema" && !kind.value.strict;
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
  const { markers, mustCall, constraint, reasoning } = options;
  const calls = callsOf(options, rules);
  const value = mustCall
    ? undefined
    : answerGrammar(constraint, rules, { onlyStrict: onlyPromised, undeclared: options.undeclared })?.root;
  const isFree = !mustCall && value === undefined;
  if (isFree && calls === undefined) return undefined;
  const answer = rules.named(BEHIND_REASONING, () => {
    if (isFree) return saying(rules, options, calls);
    return choice(...(calls ? [behindText(markers, calls.root)] : []), ...(value ? [inText(markers, value)] : []));
  });
  const thought = () => thinking(rules, options, calls, isFree);
  const open = isFree ? undefined : markers.reasoning?.open;
  if (reasoning === "opened") return thought();
  return reasoning === "may-open" && open !== undefined ? choice(sequence(markup(open), thought()), answer) : answer;
}

function callsOf(options: OutputGrammarOptions, rules: GrammarRules): ToolCallGrammar | undefined {
  const { markers, tools, mustCall, mustNotCall, constraint } = options;
  const { toolCall, text, reasoning } = markers;
  if (!toolCall) return undefined;
  const otherMarks = [...(text ? marksOfText(text) : []), ...(reasoning ? [reasoning.open, reasoning.close] : [])];
  if (tools.length > 0)
    return toolCallGrammar({ ...options, markers: toolCall, otherMarks, held: mustCall ? "all" : "strict" }, rules);
  return mustNotCall && constraint?.kind === undefined ? noCalls(toolCall, otherMarks) : undefined;
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

function saying(rules: GrammarRules, options: OutputGrammarOptions, calls: ToolCallGrammar | undefined): Gbnf {
  const { markers } = options;
  const { reasoning } = markers;
  const opens: readonly TextEnd[] = reasoning
    ? [{ mark: reasoning.open, behind: thinking(rules, options, calls, true), onlyFirst: !reasoning.anywhere }]
    : [];
  const ends = [...fenced(calls?.openers ?? [], markers, BEHIND_REASONING), ...opens];
  return freeText(rules, ends, true);
}

/** Lets text continue where a code fence closes after calls: the calls were examples in it. */
function fenced(calls: readonly TextEnd[], markers: OutputMarkers, around: string): readonly TextEnd[] {
  if (!hasExamples(markers)) return calls;
  const close = sequence(repeat(charsOf("\n\n"), 1, 2), repeat(literal(" "), 0, FENCE.maxIndent), choice(...FENCES));
  const more = optional(sequence(close, rule(around)));
  return calls.map((each) =>
    each.onlyFirst || each.behind === NEVER ? each : { ...each, behind: sequence(each.behind, more) },
  );
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
    return freeText(rules, ends, mayEnd);
  });
}

function reasoningEnds(
  { endedByCall }: NonNullable<OutputMarkers["reasoning"]>,
  calls: ToolCallGrammar | undefined,
): readonly TextEnd[] {
  if (!endedByCall || calls === undefined) return [];
  return endedByCall === "as-written" ? calls.written() : calls.openers.filter(({ onlyFirst }) => !onlyFirst);
}
