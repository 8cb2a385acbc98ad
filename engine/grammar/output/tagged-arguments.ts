import { EMPTY, type Gbnf, literal, NEVER, optional, sequence } from "../../gbnf/gbnf.ts";
import { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { anyOfTexts, anyValue, type JsonValue } from "../../gbnf/json-value.ts";
import type { ParameterTags } from "../../tool-calls/tool-call-form.ts";
import { textWithout } from "../expressions/text-until.ts";
import { isList, isObject, type SchemaObject, shown } from "../schema/schema-document.ts";
import { keyword, type SchemaType } from "../schema/schema-keywords.ts";
import { toGrammar } from "../values/json-schema.ts";
import { enforcedFormat, formatGrammar } from "../values/string-grammar.ts";

/** The rules of how the arguments of a call stand between tags. */
export type TaggedArgumentsOptions = {
  /** The tags around names and values. */
  readonly tags: ParameterTags;
  /** The field that held the schema, for error messages. */
  readonly at: string;
  /** Returns the types that the schema allows for a parameter; undefined for any. */
  readonly typesOf: (key: string) => ReadonlySet<string> | undefined;
};

/** The keywords that are enforced of the object as a whole: others that speak of an object are not. */
const OF_THE_WHOLE = ["type", "nullable", "properties", "required", "additionalProperties"];

/**
 * Matches the parameters of a call as text between tags: the declared ones in the order of the schema, optional ones
 * may be left out. A value that is a string is any text without the closing mark, or one of an `enum`; other values are
 * JSON of their schema. Throws `EngineError` INVALID_SCHEMA as `toGrammar` does.
 */
export function taggedArguments(
  schema: unknown,
  rules: GrammarRules,
  options: TaggedArgumentsOptions,
): { readonly root: Gbnf; readonly unenforced: readonly string[] } {
  const { at } = options;
  // The limits on a schema as a whole are those of every other schema.
  toGrammar(schema, new GrammarRules(), { at, objectOnly: true });
  if (!isSchemaObject(schema)) return { root: EMPTY, unenforced: [] };
  const unenforced = Object.keys(schema)
    .filter((name) => speaksOf(name, "object") && !OF_THE_WHOLE.includes(name))
    .map((name) => `${at}#/${name}`);
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = new Set(isList(schema.required) ? schema.required.map(String) : []);
  const parameters = [...new Set([...Object.keys(properties), ...required])].map((key) => {
    const declared = Object.hasOwn(properties, key) ? properties[key] : undefined;
    const value = parameterValue({ key, property: declared ?? true, root: schema }, rules, options);
    unenforced.push(...value.unenforced);
    const { tags } = options;
    const parameter = rules.fresh(() =>
      sequence(literal(tags.before(key, value.kind)), value.grammar, literal(tags.after)),
    );
    return required.has(key) ? parameter : optional(parameter);
  });
  return { root: sequence(...parameters), unenforced };
}

/** A parameter of a tool: its name, its schema, and the schema of the tool. */
type Parameter = { readonly key: string; readonly property: JsonValue; readonly root: SchemaObject };

/**
 * The grammar of how the value of a parameter is written, and the keywords of its schema that this does not enforce.
 */
type ParameterValue = {
  readonly kind: "text" | "json";
  readonly grammar: Gbnf;
  readonly unenforced: readonly string[];
};

function parameterValue(
  { key, property, root }: Parameter,
  rules: GrammarRules,
  options: TaggedArgumentsOptions,
): ParameterValue {
  if (property === false) return { kind: "text", grammar: NEVER, unenforced: [] };
  const { at, tags, typesOf } = options;
  const path = `${at}#/properties/${shown(key)}`;
  const types = typesOf(key);
  const isText = types?.size === 1 && types.has("string");
  const isJson = types !== undefined && !types.has("string");
  if (!isText && (isJson || tags.tellsKind)) {
    if (!refersInside(property)) return { kind: "json", grammar: anyValue(rules), unenforced: [`${path}/$ref`] };
    const found = toGrammar(withDefinitions(property, root), rules, { at });
    const unenforced = found.unenforced.map((each) => each.replace(`${at}#`, () => path));
    return { kind: "json", grammar: found.root, unenforced };
  }
  const mark = tags.after.trim();
  const own = isText && isObject(property) ? property : {};
  const texts = fixedTexts(own);
  const format = texts === undefined ? enforcedFormat(own) : undefined;
  const enforced = [...(texts ? ["enum", "const"] : []), ...(format ? ["format"] : [])];
  const ignored = isObject(property) ? ignoredIn(property, isText) : [];
  const unenforced = ignored.filter((name) => !enforced.includes(name)).map((name) => `${path}/${name}`);
  if (format !== undefined) return { kind: "text", grammar: formatGrammar(rules, format), unenforced };
  if (texts === undefined) return { kind: "text", grammar: textWithout(rules, mark), unenforced };
  return { kind: "text", grammar: anyOfTexts(texts.filter((text) => !text.includes(mark))), unenforced };
}

/**
 * Returns the keywords of a parameter of text that a text of any kind may break. Its types are those that the output
 * parser gives a text, which knows of no integers beside text.
 */
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

/** Returns whether a keyword can say something of a value of the type. */
function speaksOf(name: string, type: SchemaType): boolean {
  const found = keyword(name);
  return found !== undefined && (found.type === undefined || found.type === type);
}

/** Returns the strings that the parameter may be, where they are listed. */
function fixedTexts(property: SchemaObject): readonly string[] | undefined {
  const values: JsonValue | undefined = Object.hasOwn(property, "const") ? [property.const ?? null] : property.enum;
  return isList(values) ? values.filter((value) => typeof value === "string") : undefined;
}

/** Returns whether all references of a parameter name definitions, which it can take along. */
function refersInside(property: JsonValue): boolean {
  const references = JSON.stringify(property).matchAll(/"\$ref":"([^"]*)/g);
  return [...references].every(
    ([, target = ""]) => !target.startsWith("#") || /^#\/(\$defs|definitions)\//.test(target),
  );
}

function withDefinitions(property: JsonValue, { $defs, definitions }: SchemaObject): JsonValue {
  if (!isObject(property)) return property;
  return {
    ...(definitions === undefined ? {} : { definitions }),
    ...($defs === undefined ? {} : { $defs }),
    ...property,
  };
}

function isSchemaObject(schema: unknown): schema is SchemaObject {
  return typeof schema === "object" && schema !== null && !Array.isArray(schema);
}
