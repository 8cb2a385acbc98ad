import {
  type CodeRange,
  chars,
  choice,
  EMPTY,
  type Gbnf,
  literal,
  markup,
  NEVER,
  optional,
  repeat,
  rule,
  sequence,
} from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { anyOfTexts, anyValue, type JsonValue } from "../../gbnf/json-value.ts";
import type { ParameterTags } from "../../tool-calls/tool-call-form.ts";
import { ALL_CODES, subtract } from "../expressions/regular-expression.ts";
import { textWithout } from "../expressions/text-grammar.ts";
import type { UndeclaredMembers } from "../schema/schema-alternatives.ts";
import { isList, isObject, SchemaDocument, type SchemaObject, shown } from "../schema/schema-document.ts";
import { keyword, type SchemaType, writtenFormat } from "../schema/schema-keywords.ts";
import { SchemaGrammars } from "../values/json-schema.ts";
import { MAX_OPTIONAL } from "../values/object-grammar.ts";
import { formatGrammar } from "../values/string-grammar.ts";

export type TaggedArgumentsOptions = {
  readonly tags: ParameterTags;
  readonly at: string;
  readonly undeclared?: UndeclaredMembers | undefined;
  readonly typesOf: (key: string) => ReadonlySet<string> | undefined;
};

const OF_THE_WHOLE = ["type", "nullable", "properties", "required", "additionalProperties"];
const READINGS_OF_TEXT = 16;

/**
 * Parameters as text between tags, in order. A string is any text without the closing mark, or one of an `enum`; other
 * values are JSON of their schema. Throws `EngineError` INVALID_SCHEMA.
 */
export function taggedArguments(
  schema: unknown,
  rules: GrammarRules,
  options: TaggedArgumentsOptions,
): { readonly root: Gbnf; readonly unenforced: readonly string[] } {
  const { at, undeclared } = options;
  const document = new SchemaDocument(schema, at);
  const grammars = new SchemaGrammars(document, rules, undeclared);
  if (!allowsObjects(schema)) return document.fail("", "no value can satisfy it");
  if (!isObject(schema)) return { root: EMPTY, unenforced: [] };
  const unenforced = Object.keys(schema)
    .filter((name) => speaksOf(name, "object") && !OF_THE_WHOLE.includes(name))
    .map((name) => `${at}#/${name}`);
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = new Set(isList(schema.required) ? schema.required.map(String) : []);
  const names = [...new Set([...Object.keys(properties), ...required])];
  if (names.filter((key) => !required.has(key) && properties[key] !== false).length > MAX_OPTIONAL)
    document.tooCostly("/properties", `has more than ${MAX_OPTIONAL} optional properties`);
  const parameters = names.map((key) => {
    const declared = Object.hasOwn(properties, key) ? properties[key] : undefined;
    const value = parameterValue({ key, property: declared ?? true, grammars }, rules, options);
    unenforced.push(...value.unenforced);
    const { tags } = options;
    const keys = { open: literal(tags.key(key)), close: literal(key) };
    const ends = tags.keyEnds(value.kind, options.typesOf(key));
    const parameter = rules.fresh(() => parameterGrammar(tags, value.kind, keys, ends, value.grammar));
    return { parameter, isRequired: required.has(key) };
  });
  return { root: inOrder(rules, parameters, options.tags.between ?? ""), unenforced };
}

function inOrder(
  rules: GrammarRules,
  parameters: readonly { readonly parameter: Gbnf; readonly isRequired: boolean }[],
  between: string,
): Gbnf {
  if (between === "")
    return sequence(...parameters.map(({ parameter, isRequired }) => (isRequired ? parameter : optional(parameter))));
  // The rest after no parameter, and after at least one.
  let [first, later]: readonly [Gbnf, Gbnf] = [EMPTY, EMPTY];
  for (const { parameter, isRequired } of [...parameters].reverse()) {
    const [restFirst, restLater] = [first, later];
    const go = (start: Gbnf, without: Gbnf) =>
      rules.fresh(() => choice(sequence(start, parameter, restLater), ...(isRequired ? [] : [without])));
    [first, later] = [go(EMPTY, restFirst), go(markup(between), restLater)];
  }
  return first;
}

/** Any parameters. A closing tag with a name may differ from its opening one: a grammar cannot compare them. */
export function anyTaggedArguments(rules: GrammarRules, tags: ParameterTags): Gbnf {
  return rules.named("any-parameters", () => {
    const { nested } = tags;
    const text = nested === undefined ? textWithout(rules, tags.close) : textWithout(rules, nested);
    // Nested parameters are at least one: an empty text already matches as text.
    const elements = nested === undefined ? [] : [sequence(rule("any-parameter"), rule("any-parameters"))];
    const value = (kind: "text" | "json") => (kind === "json" ? anyValue(rules) : choice(text, ...elements));
    const parameter = (kind: "text" | "json") => {
      const ends = tags.keyEnds(kind);
      const [, closeEnd = ""] = tags.after(KEY, kind).split(KEY);
      const key = repeat(charactersBut([...ends, closeEnd, ...(tags.notInKeys ?? "")]), 1, undefined);
      return parameterGrammar(tags, kind, { open: key, close: key }, ends, value(kind));
    };
    const any = rules.named("any-parameter", () =>
      tags.distinguishesKind ? choice(parameter("text"), parameter("json")) : parameter("text"),
    );
    if (tags.between === undefined) return repeat(any, 0, undefined);
    return optional(sequence(any, repeat(sequence(markup(tags.between), any), 0, undefined)));
  });
}

const KEY = "\0";

function parameterGrammar(
  tags: ParameterTags,
  kind: "text" | "json",
  keys: { readonly open: Gbnf; readonly close: Gbnf },
  ends: readonly string[],
  value: Gbnf,
): Gbnf {
  const [close = "", closeEnd] = tags.after(KEY, kind).split(KEY);
  const named = closeEnd === undefined ? [] : [keys.close, markup(closeEnd)];
  return sequence(markup(tags.open), keys.open, choice(...ends.map(markup)), value, markup(close), ...named);
}

function charactersBut(ends: readonly string[]): Gbnf {
  const firsts = ends.flatMap((end) => end.codePointAt(0) ?? []);
  return chars(...subtract(ALL_CODES, [[0, 0x1f], ...firsts.map((code): CodeRange => [code, code])]));
}

type Parameter = { readonly key: string; readonly property: JsonValue; readonly grammars: SchemaGrammars };

type ParameterValue = {
  readonly kind: "text" | "json";
  readonly grammar: Gbnf;
  readonly unenforced: readonly string[];
};

function parameterValue(
  { key, property, grammars }: Parameter,
  rules: GrammarRules,
  options: TaggedArgumentsOptions,
): ParameterValue {
  if (property === false) return { kind: "text", grammar: NEVER, unenforced: [] };
  const { at, tags, typesOf } = options;
  const path = `${at}#/properties/${shown(key)}`;
  const types = typesOf(key);
  const isText = types?.size === 1 && types.has("string");
  const isJson = types !== undefined && !types.has("string");
  if (!isText && (isJson || tags.distinguishesKind)) {
    const found = grammars.inside(property, `/properties/${shown(key)}`);
    return { kind: "json", grammar: found.root, unenforced: found.unenforced };
  }
  const mark = tags.close;
  const own = isText && isObject(property) ? property : {};
  const texts = fixedTexts(own);
  const format = texts === undefined ? soleFormat(own) : undefined;
  const enforced = [...(texts ? ["enum", "const"] : []), ...(format ? ["format"] : [])];
  const ignored = isObject(property) ? ignoredIn(property, isText) : [];
  const unenforced = ignored.filter((name) => !enforced.includes(name)).map((name) => `${path}/${name}`);
  if (format !== undefined) return { kind: "text", grammar: formatGrammar(rules, format), unenforced };
  if (texts === undefined) return { kind: "text", grammar: textWithout(rules, mark), unenforced };
  for (const text of texts) rules.budget.payForText(READINGS_OF_TEXT * text.length);
  return { kind: "text", grammar: anyOfTexts(texts.filter((text) => !text.includes(mark))), unenforced };
}

/** Keywords that an arbitrary text may violate; the output parser does not distinguish integers from text. */
function ignoredIn(property: SchemaObject, isText: boolean): readonly string[] {
  return Object.keys(property).filter((name) => {
    const value = property[name];
    if (name === "nullable") return false;
    if (name === "type") return isList(value) && value.includes("integer");
    if ((name === "anyOf" || name === "oneOf") && isList(value)) {
      return !value.every((each) => isObject(each) && each.type !== "integer" && ignoredIn(each, false).length === 0);
    }
    return isText ? speaksOf(name, "string") : keyword(name) !== undefined;
  });
}

function soleFormat({ format, pattern, minLength, maxLength, not }: SchemaObject): string | undefined {
  const isAlone = [pattern, minLength, maxLength, not].every((each) => each === undefined);
  return isAlone && typeof format === "string" && writtenFormat(format) !== undefined ? format : undefined;
}

function speaksOf(name: string, type: SchemaType): boolean {
  const found = keyword(name);
  return found !== undefined && (found.type === undefined || found.type === type);
}

function fixedTexts(property: SchemaObject): readonly string[] | undefined {
  const values: JsonValue | undefined = Object.hasOwn(property, "const") ? [property.const ?? null] : property.enum;
  return isList(values) ? values.filter((value) => typeof value === "string") : undefined;
}

function allowsObjects(schema: unknown): boolean {
  if (!isObject(schema)) return schema === true;
  const { type = "object" } = schema;
  return isList(type) ? type.includes("object") : type === "object";
}
