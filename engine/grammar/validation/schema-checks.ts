import type { JsonValue } from "../../gbnf/json-value.ts";
import { matchesExpression } from "../expressions/expression-matcher.ts";
import type { Expression } from "../expressions/regular-expression.ts";
import { canonical } from "../schema/fixed-values.ts";
import { isList, isObject, type SchemaObject } from "../schema/schema-document.ts";
import type { KeywordName } from "../schema/schema-keywords.ts";
import { allowedFormat } from "../schema/string-format.ts";
import { enforcedFormat } from "../values/string-grammar.ts";

/** A schema that a value is looked at with, and how values are looked at with the schemas inside it. */
export type Look = {
  readonly schema: SchemaObject;
  /** `path`: where the inner schema stands. */
  readonly holds: (inner: JsonValue, value: JsonValue, ...path: string[]) => boolean;
  /** Pays for so much work beside the looks; false where there is no more to be had. */
  readonly afford: (work: number) => boolean;
  /** Undefined for what is outside of what `parseExpression` knows. */
  readonly expressionOf: (pattern: string) => Expression | undefined;
  /** True for what another document holds. */
  readonly refersTo: (reference: string, value: JsonValue) => boolean;
};

/** Whether a value does what a keyword of the schema says; of a value of another type it says nothing. */
export type Check = (look: Look, value: JsonValue) => boolean;

/** No grammar enforces it, and it says nothing that could be found out here. */
const notLookedAt: Check = () => true;

/** A keyword of numbers, and what it says where its value is one. */
const ofNumber =
  (name: string, holds: (value: number, bound: number, schema: SchemaObject) => boolean): Check =>
  ({ schema }, value) => {
    const bound = schema[name];
    return typeof value !== "number" || typeof bound !== "number" || holds(value, bound, schema);
  };

/** A keyword that bounds the size of some values; `sizeOf` is undefined for others. */
const ofSize =
  (name: string, sizeOf: (value: JsonValue) => number | undefined, most: boolean): Check =>
  ({ schema }, value) => {
    const size = sizeOf(value);
    const bound = schema[name];
    return size === undefined || typeof bound !== "number" || (most ? size <= bound : size >= bound);
  };
const length = (value: JsonValue) => (typeof value === "string" ? [...value].length : undefined);
const items = (value: JsonValue) => (isList(value) ? value.length : undefined);
const members = (value: JsonValue) => (isObject(value) ? Object.keys(value).length : undefined);

const valuesOf = new WeakMap<readonly JsonValue[], ReadonlySet<string>>();

/** An `enum` may be long, and be looked at for each item of a list. */
function canonicalValues(list: readonly JsonValue[]): ReadonlySet<string> {
  const known = valuesOf.get(list);
  if (known !== undefined) return known;
  const values = new Set(list.map(canonical));
  valuesOf.set(list, values);
  return values;
}

/** How many of the schemas in a list a value satisfies, up to `enough`. */
function countOf({ schema, holds }: Look, name: string, value: JsonValue, enough: number): number {
  const list = schema[name];
  let count = 0;
  for (const [i, inner] of isList(list) ? list.entries() : []) {
    if (count < enough && holds(inner, value, name, String(i))) count += 1;
  }
  return count;
}

export const CHECKS: Readonly<Record<KeywordName, Check>> = {
  type: ({ schema: { type = null } }, value) => isOfType(isList(type) ? type : [type], value),
  // It only ever widens what the others say.
  nullable: () => true,
  enum: ({ schema }, value) => isList(schema.enum) && canonicalValues(schema.enum).has(canonical(value)),
  const: ({ schema }, value) => canonical(schema.const ?? null) === canonical(value),
  $ref: ({ schema: { $ref }, refersTo }, value) => typeof $ref !== "string" || refersTo($ref, value),
  $dynamicRef: notLookedAt,
  $recursiveRef: notLookedAt,
  allOf: (look, value) => {
    const count = isList(look.schema.allOf) ? look.schema.allOf.length : 0;
    return countOf(look, "allOf", value, count) === count;
  },
  anyOf: (look, value) => countOf(look, "anyOf", value, 1) === 1,
  oneOf: (look, value) => countOf(look, "oneOf", value, 2) === 1,
  not: ({ schema, holds }, value) => !holds(schema.not ?? true, value, "not"),
  if: ({ schema, holds }, value) => {
    const branch = holds(schema.if ?? true, value, "if") ? "then" : "else";
    return holds(schema[branch] ?? true, value, branch);
  },
  // In old drafts the exclusive ones are a word about these.
  minimum: ofNumber(
    "minimum",
    (value, low, schema) => value > low || (value === low && schema.exclusiveMinimum !== true),
  ),
  maximum: ofNumber(
    "maximum",
    (value, high, schema) => value < high || (value === high && schema.exclusiveMaximum !== true),
  ),
  exclusiveMinimum: ofNumber("exclusiveMinimum", (value, low) => value > low),
  exclusiveMaximum: ofNumber("exclusiveMaximum", (value, high) => value < high),
  multipleOf: ofNumber("multipleOf", (value, step) => {
    // 0.3 is a multiple of 0.1 to everybody but a binary computer.
    const quotient = value / step;
    return Math.abs(quotient - Math.round(quotient)) <= 1e-9 * Math.max(1, Math.abs(quotient));
  }),
  minLength: ofSize("minLength", length, false),
  maxLength: ofSize("maxLength", length, true),
  pattern: (look, value) => {
    const { pattern } = look.schema;
    return typeof value !== "string" || typeof pattern !== "string" || matches(look, pattern, value) !== false;
  },
  format: ({ schema, afford }, value) => {
    const format = enforcedFormat(schema);
    const expression = typeof value === "string" && format !== undefined ? allowedFormat(format) : undefined;
    return expression === undefined || matchesExpression(whole(expression), String(value), afford) !== false;
  },
  items: ({ schema, holds }, value) => {
    const { items: inner = true, additionalItems = true, prefixItems } = schema;
    if (!isList(value)) return true;
    const from = isList(prefixItems) ? prefixItems.length : 0;
    if (!isList(inner)) return value.slice(from).every((item) => holds(inner, item, "items"));
    return value.every((item, i) =>
      holds(inner[i] ?? additionalItems, item, ...(i < inner.length ? ["items", String(i)] : ["additionalItems"])),
    );
  },
  prefixItems: ({ schema: { prefixItems }, holds }, value) =>
    !isList(value) ||
    !isList(prefixItems) ||
    value.every((item, i) => holds(prefixItems[i] ?? true, item, "prefixItems", String(i))),
  minItems: ofSize("minItems", items, false),
  maxItems: ofSize("maxItems", items, true),
  uniqueItems: ({ schema }, value) =>
    schema.uniqueItems !== true || !isList(value) || new Set(value.map(canonical)).size === value.length,
  contains: ({ schema, holds }, value) => {
    if (!isList(value)) return true;
    const { contains = true, minContains = 1, maxContains = Number.POSITIVE_INFINITY } = schema;
    const count = value.filter((item) => holds(contains, item, "contains")).length;
    return count >= Number(minContains) && count <= Number(maxContains);
  },
  unevaluatedItems: notLookedAt,
  properties: ({ schema: { properties }, holds }, value) =>
    !isObject(value) ||
    !isObject(properties) ||
    Object.entries(value).every(
      ([key, member]) => !Object.hasOwn(properties, key) || holds(properties[key] ?? true, member, "properties", "*"),
    ),
  required: ({ schema: { required } }, value) =>
    !isObject(value) || !isList(required) || required.every((key) => Object.hasOwn(value, String(key))),
  additionalProperties: (look, value) => {
    const { schema, holds } = look;
    const { properties, patternProperties, additionalProperties = true } = schema;
    const isOther = (key: string) =>
      !(isObject(properties) && Object.hasOwn(properties, key)) &&
      !(
        isObject(patternProperties) &&
        Object.keys(patternProperties).some((pattern) => matches(look, pattern, key) !== false)
      );
    return (
      !isObject(value) ||
      Object.entries(value).every(
        ([key, member]) => !isOther(key) || holds(additionalProperties, member, "additionalProperties"),
      )
    );
  },
  patternProperties: (look, value) => {
    const { patternProperties } = look.schema;
    if (!isObject(value) || !isObject(patternProperties)) return true;
    return Object.entries(patternProperties).every(([pattern, inner]) =>
      Object.entries(value).every(
        ([key, member]) => matches(look, pattern, key) !== true || look.holds(inner, member, "patternProperties", "*"),
      ),
    );
  },
  unevaluatedProperties: notLookedAt,
  propertyNames: ({ schema: { propertyNames = true }, holds }, value) =>
    !isObject(value) || Object.keys(value).every((key) => holds(propertyNames, key, "propertyNames")),
  minProperties: ofSize("minProperties", members, false),
  maxProperties: ofSize("maxProperties", members, true),
  dependentRequired: ({ schema: { dependentRequired } }, value) => dependencies(dependentRequired, value, () => true),
  dependentSchemas: ({ schema: { dependentSchemas }, holds }, value) =>
    dependencies(dependentSchemas, value, (inner) => holds(inner, value, "dependentSchemas", "*")),
  dependencies: ({ schema, holds }, value) =>
    dependencies(schema.dependencies, value, (inner) => holds(inner, value, "dependencies", "*")),
};

/** What has to be true of an object for each of its keys: other keys that it has, or a schema. */
function dependencies(map: JsonValue | undefined, value: JsonValue, holds: (inner: JsonValue) => boolean): boolean {
  if (!isObject(map) || !isObject(value)) return true;
  return Object.entries(map).every(([key, inner]) => {
    if (!Object.hasOwn(value, key)) return true;
    return isList(inner) ? inner.every((other) => Object.hasOwn(value, String(other))) : holds(inner);
  });
}

function isOfType(types: readonly JsonValue[], value: JsonValue): boolean {
  if (typeof value === "number")
    return types.includes("number") || (types.includes("integer") && Number.isInteger(value));
  return types.includes(value === null ? "null" : isList(value) ? "array" : typeof value);
}

/** Undefined where it cannot be said: an expression of a caller's never runs in an engine that could explode. */
function matches({ expressionOf, afford }: Look, pattern: string, text: string): boolean | undefined {
  const expression = expressionOf(pattern);
  return expression && matchesExpression(expression, text, afford);
}

const whole = (expression: Expression): Expression => ({
  kind: "sequence",
  parts: [{ kind: "start" }, expression, { kind: "end" }],
});
