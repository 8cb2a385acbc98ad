import type { Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { choice, type Gbnf, literal, NEVER, repeat, sequence, markup as written } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { anyObject, anyOfTexts } from "../../gbnf/json-value.ts";
import { formOf, type ToolCallMarkers } from "../../tool-calls/forms.ts";
import type { CallMarkup } from "../../tool-calls/tool-call-form.ts";
import type { WorkBudget } from "../../work-budget.ts";
import type { TextEnd } from "../expressions/text-grammar.ts";
import type { UndeclaredMembers } from "../schema/schema-alternatives.ts";
import { type SchemaGrammar, toGrammar } from "../values/json-schema.ts";
import { parseSchema, refuseUnenforced, withinBudget } from "./constraint-grammar.ts";
import { anyTaggedArguments, taggedArguments } from "./tagged-arguments.ts";

export type CallableTool = Pick<Tool, "name" | "parametersJsonSchema" | "strict"> & {
  readonly position?: number;
};

export type ToolCallGrammarOptions = {
  readonly markers: ToolCallMarkers;
  readonly tools: readonly CallableTool[];
  /** The tools whose schemas are enforced: of the others only names and the form of a call are. Default: `all`. */
  readonly held?: "all" | "strict";
  readonly undeclared?: UndeclaredMembers | undefined;
  /** The model's marks that begin no call. Default: none. */
  readonly otherMarks?: readonly string[];
  readonly maxCalls?: number;
  /** Types for tagged arguments, as the output parser reads them; undefined for any. Throws `WorkSpent`. */
  readonly argumentTypes?: (
    toolName: string,
    path: readonly string[],
    budget: WorkBudget,
  ) => ReadonlySet<string> | undefined;
};

const NO_PARAMETERS = '{"type":"object","additionalProperties":false}';

export type ToolCallGrammar = SchemaGrammar & {
  /** The marks where calls begin in other text, each with the rest of the calls and nothing after. */
  readonly openers: readonly TextEnd[];
  /** The same for the longer marks that a mere mention of a mark does not match. */
  readonly written: () => readonly TextEnd[];
};

/** One or more calls, and nothing after. Throws `EngineError` INVALID_SCHEMA with the tool. */
export function toolCallGrammar(options: ToolCallGrammarOptions, rules: GrammarRules): ToolCallGrammar {
  const { markers, tools, maxCalls = 1, held = "all" } = options;
  const unenforced: string[] = [];
  const markup = formOf(markers).markup(markers);
  if (markup === undefined) return { root: NEVER, openers: [], written: () => [], unenforced };
  const { begins, rest } = markup;
  const callable = tools.map((tool, i): CallParts => {
    const at = `tools.${tool.position ?? i}.parameters_json_schema`;
    const found = withinBudget(at, () => argumentsOf(tool, at, rules, markup, options));
    if (tool.strict) refuseUnenforced(found.unenforced);
    unenforced.push(...found.unenforced);
    const { name } = tool;
    const args = rules.shared(found.root);
    return { name, args, call: sequence(literal(begins(name)), rest(name, args)) };
  });
  const call = rules.fresh(() => oneOf(callable.map((each) => each.call)));
  const next = rules.fresh(() => sequence(written(markup.between), call));
  const groupOf = (first: Gbnf) => rules.shared(sequence(first, repeat(next, 0, maxCalls - 1), written(markup.close)));
  const group = groupOf(call);
  const behind = (begun: string) =>
    begun === "" ? group : groupOf(oneOf(callable.flatMap((each) => behindText(begun, each.call))));
  const others = (markup.otherCalls ?? []).map(({ mark, call: write }) => ({
    mark,
    behind: groupOf(oneOf(callable.map(({ name, args }) => write(name, args)))),
  }));
  const root = sequence(written(markup.open + markup.behindOpen), group);
  const isHeld = held === "all" || tools.some(({ strict }) => strict);
  const openers = [
    ...openersOf(markup, options.otherMarks ?? [], group),
    ...braceOf(markup, isHeld, group, behind),
    ...others,
  ];
  return { root, openers, written: () => writtenOf(markup, callable, behind), unenforced };
}

type CallParts = { readonly name: string; readonly args: Gbnf; readonly call: Gbnf };

/** Any of the calls: those that differ in their first text alone are one alternative, which costs as much as one. */
function oneOf(calls: readonly Gbnf[]): Gbnf {
  const groups = new Map<string, { readonly texts: string[]; readonly rest: readonly Gbnf[] }>();
  const others: Gbnf[] = [];
  for (const call of calls) {
    const [first, ...rest] = call.kind === "sequence" ? call.parts : [call];
    if (first?.kind !== "literal" || first.isMarkup) {
      others.push(call);
      continue;
    }
    const key = JSON.stringify(rest);
    const group = groups.get(key) ?? { texts: [], rest };
    groups.set(key, group);
    group.texts.push(first.text);
  }
  const joined = [...groups.values()].map(({ texts, rest }) => {
    const end = commonEnd(texts);
    const heads = texts.map((text) => text.slice(0, text.length - end.length));
    return sequence(anyOfTexts(heads), literal(end), ...rest);
  });
  return choice(...joined, ...others);
}

/** Returns the text with which all texts end, without a part of a surrogate pair. */
function commonEnd(texts: readonly string[]): string {
  const [first = "", ...others] = texts;
  let length = others.length === 0 ? 0 : first.length;
  for (const text of others) while (!text.endsWith(first.slice(first.length - length))) length -= 1;
  return first.slice(first.length - length).replace(/^[\udc00-\udfff]/, "");
}

/** Returns a call behind its first text; none if it begins with another one. */
function behindText(begun: string, call: Gbnf): readonly Gbnf[] {
  const [first, ...rest] = call.kind === "sequence" ? call.parts : [call];
  if (first?.kind !== "literal" || !first.text.startsWith(begun)) return [];
  return [sequence(literal(first.text.slice(begun.length)), ...rest)];
}

/**
 * Returns the marks that a mere mention of the opening mark does not match, cut at the first character behind it: that
 * is enough to distinguish a call from a mention, and each character of a mark takes its reader as long as a rule.
 */
function writtenOf(
  { open, behindOpen }: CallMarkup,
  callable: readonly CallParts[],
  behind: (begun: string) => Gbnf,
): readonly TextEnd[] {
  const lead = behindOpen.slice(0, behindOpen.length - behindOpen.trimStart().length);
  const [first] = behindOpen.trimStart();
  if (first !== undefined) {
    const rest = written(behindOpen.slice(lead.length + first.length));
    return [{ mark: open.trimStart() + lead + first, behind: sequence(rest, behind("")) }];
  }
  const firsts = new Set(callable.map(({ call }) => firstCharOf(call)));
  return [...firsts].map((char) => ({ mark: (open + lead).trimStart() + char, behind: behind(char) }));
}

function firstCharOf(call: Gbnf): string {
  const [first] = call.kind === "sequence" ? call.parts : [call];
  return first?.kind === "literal" ? ([...first.text][0] ?? "") : "";
}

/**
 * Returns the marks at which calls begin. Marks with a word of their own in common count from that word on, behind which
 * only those that the template writes may come: no model begins another spelling of them.
 */
function openersOf(markup: CallMarkup, others: readonly string[], group: Gbnf): readonly TextEnd[] {
  const { open, behindOpen, otherOpen, behindOtherOpen } = markup;
  const as = (mark: string, behind: string) => ({
    mark: mark.trimStart(),
    behind: sequence(written(behind), group),
  });
  const marks = [as(open, behindOpen), as(otherOpen, behindOtherOpen)].filter(({ mark }) => mark !== "");
  const word = ownWord(markup, others);
  if (word === undefined) return marks;
  const ways = marks.map(({ mark, behind }) => sequence(written(mark.slice(word.length)), behind));
  return [{ mark: word, behind: choice(...ways) }];
}

/**
 * Returns the beginning of calls without marks, at the start of the text: a brace where a schema is promised, else the
 * whole head before a name, as other JSON is an answer.
 */
function braceOf(
  { head }: CallMarkup,
  isHeld: boolean,
  group: Gbnf,
  behind: (begun: string) => Gbnf,
): readonly TextEnd[] {
  if (head === undefined) return [];
  if (isHeld) return [{ mark: "{", behind: group, onlyFirst: true, isKept: true }];
  return [{ mark: head, behind: behind(head), onlyFirst: true }];
}

/** A text that begins no call: every mark of one, or the word with which all of them begin, is left out. */
export function noCalls(markers: ToolCallMarkers, others: readonly string[]): ToolCallGrammar {
  const markup = formOf(markers).markup(markers);
  const word = markup && ownWord(markup, others);
  const marks = word === undefined ? marksOf(markup) : [word];
  const openers = marks.map((mark) => ({ mark, behind: NEVER }));
  return { root: NEVER, openers, written: () => [], unenforced: [] };
}

/** Returns the text with which all marks of calls begin, if it has letters and none of the `others` begins with it. */
function ownWord(markup: CallMarkup, others: readonly string[]): string | undefined {
  const marks = marksOf(markup);
  let [word = ""] = marks;
  for (const mark of marks) while (!mark.startsWith(word)) word = word.slice(0, -1);
  word = word.trimEnd();
  const isOwn = /\p{L}/u.test(word) && !others.some((other) => other.trimStart().startsWith(word));
  return isOwn ? word : undefined;
}

function marksOf(markup: CallMarkup | undefined): readonly string[] {
  const { open = "", otherOpen = "", otherCalls = [] } = markup ?? {};
  const marks = [open, otherOpen, ...otherCalls.map(({ mark }) => mark)].map((mark) => mark.trim());
  return [...new Set(marks)].filter((mark) => mark !== "");
}

function argumentsOf(
  { name, parametersJsonSchema, strict }: CallableTool,
  at: string,
  rules: GrammarRules,
  { tags }: CallMarkup,
  { argumentTypes, undeclared, held = "all" }: ToolCallGrammarOptions,
): SchemaGrammar {
  if (!strict && held === "strict")
    return { root: tags === undefined ? anyObject(rules) : anyTaggedArguments(rules, tags), unenforced: [] };
  const schema = parseSchema(parametersJsonSchema === "" ? NO_PARAMETERS : parametersJsonSchema, at, rules.budget);
  if (tags === undefined) return toGrammar(schema, rules, { at, objectOnly: true, undeclared });
  return taggedArguments(schema, rules, {
    tags,
    at,
    undeclared,
    typesOf: (key) => argumentTypes?.(name, [key], rules.budget),
  });
}
