import type { Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { choice, type Gbnf, literal, NEVER, repeat, sequence, markup as written } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { anyObject } from "../../gbnf/json-value.ts";
import { formOf, type ToolCallMarkers } from "../../tool-calls/forms.ts";
import { type CallMarkup, writtenMarks } from "../../tool-calls/tool-call-form.ts";
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
  /** The enforced schemas; `strict` includes those that give tagged arguments their types. Default: `all`. */
  readonly held?: "all" | "strict" | "only-strict";
  readonly undeclared?: UndeclaredMembers | undefined;
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
    const args = markup.otherCalls?.length ? rules.fresh(() => found.root) : found.root;
    return { name, args, begins: begins(name), rest: rules.fresh(() => rest(name, args)) };
  });
  const call = rules.fresh(() => choice(...callable.map((each) => sequence(literal(each.begins), each.rest))));
  const next = rules.fresh(() => sequence(written(markup.between), call));
  const groupOf = (first: Gbnf) =>
    rules.fresh(() => sequence(first, repeat(next, 0, maxCalls - 1), written(markup.close)));
  const group = groupOf(call);
  const others = (markup.otherCalls ?? []).map(({ mark, call: write }) => ({
    mark,
    behind: groupOf(choice(...callable.map(({ name, args }) => write(name, args)))),
  }));
  const root = sequence(written(markup.open + markup.behindOpen), group);
  const openers = [...openersOf(markup, group), ...others];
  return { root, openers, written: () => writtenOf(markup, callable, groupOf), unenforced };
}

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
    ...[open, ...otherOpens].map((mark) => ({ mark: mark.trimStart(), behind: sequence(written(behindOpen), group) })),
    { mark: otherOpen.trimStart(), behind: sequence(written(behindOtherOpen), group) },
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
