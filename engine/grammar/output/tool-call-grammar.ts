import type { Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { choice, type Gbnf, literal, NEVER, repeat, sequence } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { anyObject } from "../../gbnf/json-value.ts";
import { formOf, type ToolCallMarkers } from "../../tool-calls/forms.ts";
import type { CallMarkup } from "../../tool-calls/tool-call-form.ts";
import { writtenMarks } from "../../tool-calls/written-marks.ts";
import type { WorkBudget } from "../../work-budget.ts";
import type { TextEnd } from "../expressions/text-until.ts";
import type { UndeclaredMembers } from "../schema/schema-facets.ts";
import { toGrammar } from "../values/json-schema.ts";
import type { SchemaGrammar } from "../values/schema-converter.ts";
import { parseSchema, refuseUnenforced, withinBudget } from "./constraint-grammar.ts";
import { anyTaggedArguments, taggedArguments } from "./tagged-arguments.ts";

/** A tool that may be called, as far as its grammar depends on it. */
export type CallableTool = Pick<Tool, "name" | "parametersJsonSchema" | "strict"> & {
  /** The place of the tool among all tools of the request, from 0, by which an error names it. Default: its place here. */
  readonly position?: number;
};

/** The calls that a model may make, and how it writes them. */
export type ToolCallGrammarOptions = {
  /** The form in which the model writes calls. */
  readonly markers: ToolCallMarkers;
  /** The tools that may be called, at least one: all of them, the allowed ones, or the named one. */
  readonly tools: readonly CallableTool[];
  /**
   * Which tools are held to their schemas: `all`; `strict`, so that a strict one beside them costs the others nothing,
   * which where arguments are text between tags are held to theirs all the same, as that is how their types are told;
   * or `only-strict`, where not even those are. Default: `all`.
   */
  readonly held?: "all" | "strict" | "only-strict";
  /** Which members an object may have where its schema declares some and is silent about others. Default: `declared`. */
  readonly undeclared?: UndeclaredMembers | undefined;
  /** The most calls in one answer. Default: 1. */
  readonly maxCalls?: number;
  /**
   * Returns the types of a tool's argument as the output parser takes them, which count where arguments are text
   * between tags. Undefined, and the default: any. It pays from the budget, and throws `WorkSpent`.
   */
  readonly argumentTypes?: (
    toolName: string,
    path: readonly string[],
    budget: WorkBudget,
  ) => ReadonlySet<string> | undefined;
};

/** The schema of a tool without parameters, which takes no arguments. */
const NO_PARAMETERS = '{"type":"object","additionalProperties":false}';

/** The grammar of calls. */
export type ToolCallGrammar = SchemaGrammar & {
  /** The marks where calls begin in another text, and what comes behind: the calls, and nothing more. */
  readonly openers: readonly TextEnd[];
  /**
   * What tells a call as the template writes it from marks that are only mentioned, and what comes behind: the rest of
   * the calls, and nothing more.
   */
  readonly written: () => readonly TextEnd[];
};

/**
 * Makes the grammar of one or more tool calls as the chat template writes them, with arguments after each tool's
 * schema, and nothing behind them. Of markup that only an engine reads nothing can match. Throws `EngineError`
 * INVALID_SCHEMA as `toGrammar` does, and for a strict tool whose schema has keywords that the grammar does not
 * enforce. The position of a tool names it.
 */
export function toolCallGrammar(options: ToolCallGrammarOptions, rules: GrammarRules): ToolCallGrammar {
  const { markers, tools, maxCalls = 1 } = options;
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
    const args = markup.otherCalls ? rules.fresh(() => found.root) : found.root;
    return { name, args, begins: begins(name), rest: rules.fresh(() => rest(name, args)) };
  });
  const call = rules.fresh(() => choice(...callable.map((each) => sequence(literal(each.begins), each.rest))));
  const next = rules.fresh(() => sequence(literal(markup.between), call));
  const groupOf = (first: Gbnf) =>
    rules.fresh(() => sequence(first, repeat(next, 0, maxCalls - 1), literal(markup.close)));
  const group = groupOf(call);
  const others = (markup.otherCalls ?? []).map(({ mark, call: write }) => ({
    mark,
    behind: groupOf(choice(...callable.map(({ name, args }) => write(name, args)))),
  }));
  const root = sequence(literal(markup.open + markup.behindOpen), group);
  const openers = [...openersOf(markup, group), ...others];
  return { root, openers, written: () => writtenOf(markup, callable, groupOf), unenforced };
}

/** A tool and the parts of its calls: its arguments, the text that a call begins with, and the rest of it. */
type CallParts = { readonly name: string; readonly args: Gbnf; readonly begins: string; readonly rest: Gbnf };

function writtenOf(
  markup: CallMarkup,
  callable: readonly CallParts[],
  groupOf: (first: Gbnf) => Gbnf,
): readonly TextEnd[] {
  const { prefix, marks } = writtenMarks(
    markup,
    callable.map(({ name }) => name),
  );
  return marks.map((mark) => {
    const begun = mark.slice(prefix.length);
    const called = callable.filter(({ begins }) => begins.startsWith(begun));
    const first = choice(...called.map(({ begins, rest }) => sequence(literal(begins.slice(begun.length)), rest)));
    return { mark, behind: groupOf(first) };
  });
}

function openersOf(markup: CallMarkup, group: Gbnf): readonly TextEnd[] {
  const { open, behindOpen, otherOpens = [], otherOpen, behindOtherOpen, opensAtBrace } = markup;
  const marks = [
    ...[open, ...otherOpens].map((mark) => ({ mark: mark.trimStart(), behind: sequence(literal(behindOpen), group) })),
    { mark: otherOpen.trimStart(), behind: sequence(literal(behindOtherOpen), group) },
  ];
  const brace: TextEnd = { mark: "{", behind: group, onlyFirst: true, isKept: true };
  return [...marks.filter(({ mark }) => mark !== ""), ...(opensAtBrace ? [brace] : [])];
}

function argumentsOf(
  { name, parametersJsonSchema, strict }: CallableTool,
  at: string,
  rules: GrammarRules,
  { tags }: CallMarkup,
  { argumentTypes, undeclared, held = "all" }: ToolCallGrammarOptions,
): SchemaGrammar {
  if (!strict && tags === undefined && held !== "all") return { root: anyObject(rules), unenforced: [] };
  if (!strict && tags !== undefined && held === "only-strict")
    return { root: anyTaggedArguments(rules, tags), unenforced: [] };
  const schema = parseSchema(parametersJsonSchema === "" ? NO_PARAMETERS : parametersJsonSchema, at, rules.budget);
  if (tags === undefined) return toGrammar(schema, rules, { at, objectOnly: true, undeclared });
  return taggedArguments(schema, rules, {
    tags,
    at,
    undeclared,
    typesOf: (key) => argumentTypes?.(name, [key], rules.budget),
  });
}
