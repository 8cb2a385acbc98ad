import type { JsonValue } from "../../gbnf/json-value.ts";
import type { WorkBudget } from "../../work-budget.ts";
import { isList, isObject, type SchemaObject } from "./schema-document.ts";
import { keyword, TYPES } from "./schema-keywords.ts";

type Resolve = (schema: SchemaObject) => JsonValue | undefined;

/** The most schemas inside one another that are negated. */
const MAX_DEPTH = 24;
/** The most excluded numbers: each parts the number line once more, and each part is an alternative. */
const MAX_NUMBERS = 16;

const EXCLUSIONS = ["pattern", "enum", "const"];

/** Whether a `not` only excludes texts of a string schema, which the grammar of strings applies. */
export function isTextExclusion({ type, not }: SchemaObject): boolean {
  if (type !== "string" || !isObject(not)) return false;
  const [only, ...others] = Object.keys(not);
  if (only === undefined || others.length > 0 || !EXCLUSIONS.includes(only)) return false;
  const values = only === "enum" && isList(not.enum) ? not.enum : only === "const" ? [not.const ?? null] : [];
  return values.every((value) => typeof value === "string");
}

/** Returns whether a `not` excludes the integers of a number schema, which the grammar of numbers applies. */
export function isIntegerExclusion({ type, not }: SchemaObject): boolean {
  return type === "number" && isObject(not) && not.type === "integer" && Object.keys(not).length === 1;
}

/** Schemas on one member: it is there, it is not there, and, with others, all of them are. */
type MemberSchemas = {
  readonly is: SchemaObject;
  readonly not: SchemaObject;
  readonly with: (names: JsonValue) => SchemaObject;
};

const INTEGER = { type: "integer" };

/**
 * The opposite of a bound on a size: its keyword, the type that it constrains, and its distance. Not `minLength` 3 is a
 * string with `maxLength` 2: a value of another type satisfies `minLength`, so it does not satisfy the opposite.
 */
const NEXT: Readonly<Record<string, readonly [key: string, type: string, by: number]>> = {
  minLength: ["maxLength", "string", -1],
  maxLength: ["minLength", "string", 1],
  minItems: ["maxItems", "array", -1],
  maxItems: ["minItems", "array", 1],
  minProperties: ["maxProperties", "object", -1],
  maxProperties: ["minProperties", "object", 1],
};

/** The opposite of a bound on a number. In old drafts the exclusive keyword is a flag beside the plain one. */
const OPPOSITE: Readonly<Record<string, { exclusive?: string; bound: string; outside: string }>> = {
  minimum: { exclusive: "exclusiveMinimum", bound: "maximum", outside: "exclusiveMaximum" },
  maximum: { exclusive: "exclusiveMaximum", bound: "minimum", outside: "exclusiveMinimum" },
  exclusiveMinimum: { bound: "maximum", outside: "" },
  exclusiveMaximum: { bound: "minimum", outside: "" },
};

/**
 * Turns a schema into one whose values are all that do not satisfy it, by De Morgan's rules: a schema is the conjunction
 * of its keywords, so its opposite is a choice between the opposites of each. A grammar has no negation of its own.
 *
 *     { type: "string", minLength: 3 }   anyOf: any type but string, or { type: "string", maxLength: 2 }
 *     { required: ["a", "b"] }           anyOf: an object without a, or an object without b
 *     { properties: { a: S } }           an object with an a that is not S
 *     { items: S }                       an array that `contains` a value that is not S
 *     { anyOf: [A, B] }                  allOf: not A, not B
 *     { minItems: 0 }                    false: nothing violates it
 *
 * Two opposites keep a `not`, of a pattern and of integers: the grammars of strings and numbers apply those themselves.
 * Schemas are known by their objects, so every negated one is made once.
 */
export class SchemaNegation {
  readonly #resolve: Resolve;
  readonly #budgetOf: () => WorkBudget;
  readonly #known = new Map<SchemaObject, JsonValue | undefined>();
  readonly #dependent = new Map<SchemaObject, Map<string, MemberSchemas>>();
  /** The schemas created here: their `properties` declare no members. */
  readonly #made = new Set<SchemaObject>();

  /** Spends from the budget that `budgetOf` returns, and throws `WorkSpent`. */
  constructor(resolve: Resolve, budgetOf: () => WorkBudget) {
    this.#resolve = resolve;
    this.#budgetOf = budgetOf;
  }

  /** Returns whether a schema was made here: `{ properties: { a: false } }` forbids a, and declares nothing. */
  isMade(schema: SchemaObject): boolean {
    return this.#made.has(schema);
  }

  made(schema: SchemaObject): SchemaObject {
    this.#made.add(schema);
    return schema;
  }

  /** Returns the schemas on the member `name` of a `dependentSchemas`, the same objects at each call. */
  dependent(map: SchemaObject, name: string): MemberSchemas {
    const known = this.#dependent.get(map) ?? new Map<string, MemberSchemas>();
    this.#dependent.set(map, known);
    const made = known.get(name) ?? {
      is: this.made({ required: [name] }),
      not: this.made({ properties: { [name]: false } }),
      with: (names: JsonValue) => this.made({ required: names }),
    };
    known.set(name, made);
    return made;
  }

  /** Undefined if a keyword cannot be negated. Objects and lists may be missing if one is among the excluded values. */
  of(schema: JsonValue, depth = 0): JsonValue | undefined {
    if (typeof schema === "boolean") return !schema;
    if (!isObject(schema) || depth > MAX_DEPTH) return undefined;
    if (this.#known.has(schema)) return this.#known.get(schema);
    // Undefined while the schema is being negated: a recursive schema reaches itself.
    this.#known.set(schema, undefined);
    const turned = this.#turned(schema, depth + 1);
    this.#known.set(schema, turned);
    return turned;
  }

  /** Joins the opposites of the keywords. One that is `false` is of a keyword that nothing violates, and adds nothing. */
  #turned(schema: SchemaObject, depth: number): JsonValue | undefined {
    const names = Object.keys(schema).filter((name) => keyword(name) !== undefined);
    this.#budgetOf().pay(4 + names.length);
    const options: JsonValue[] = [];
    for (const name of names) {
      const option = this.#ofKeyword(schema, name, depth);
      if (option === undefined) return undefined;
      if (option !== false) options.push(option);
    }
    const [only] = options;
    if (only === undefined) return false;
    if (options.length === 1 || options.includes(true)) return options.includes(true) ? true : only;
    return this.made({ anyOf: options });
  }

  #ofKeyword(schema: SchemaObject, name: string, depth: number): JsonValue | undefined {
    const value = schema[name] ?? null;
    switch (name) {
      case "type":
        return this.#otherTypes(isList(value) ? value : [value], schema.nullable === true);
      case "nullable":
        // A part of `type`, which is negated with it.
        return false;
      case "enum":
      case "const":
        return this.#otherValues(name === "const" ? [value] : isList(value) ? value : []);
      case "$ref": {
        const target = this.#resolve(schema);
        return target === undefined ? undefined : this.of(target, depth);
      }
      case "not":
        return value;
      case "allOf":
        return this.#ofEach(isList(value) ? value : [], "anyOf", depth);
      case "anyOf":
        return this.#ofEach(isList(value) ? value : [], "allOf", depth);
      case "if":
        return this.#ofBranches(schema, depth);
      case "properties":
        return this.#ofProperties(isObject(value) ? value : {}, depth);
      case "required":
        return this.#anyOf(
          (isList(value) ? value : []).map((key) => this.#object({ properties: { [String(key)]: false } })),
        );
      case "items": {
        // Behind `prefixItems` the value would have to be among the later ones, which no keyword says.
        const other = isList(value) || schema.prefixItems !== undefined ? undefined : this.of(value, depth);
        return other === undefined ? undefined : this.made({ type: "array", contains: other });
      }
      case "contains": {
        // Counted ones would need a choice for each count.
        const other = (schema.minContains ?? schema.maxContains) ? undefined : this.of(value, depth);
        return other === undefined ? undefined : this.made({ type: "array", items: other });
      }
      default:
        return this.#ofBound(schema, name, value);
    }
  }

  /** Undefined for a keyword without an opposite in JSON Schema, such as `uniqueItems` or `multipleOf`. */
  #ofBound(schema: SchemaObject, name: string, value: JsonValue): JsonValue | undefined {
    const next = NEXT[name];
    if (next !== undefined) {
      const [key, type, by] = next;
      if (typeof value !== "number") return undefined;
      return value + by < 0 ? false : this.made({ type, [key]: value + by });
    }
    if (name === "pattern") return this.made({ type: "string", not: { pattern: value } });
    const opposite = OPPOSITE[name];
    if (opposite === undefined) return undefined;
    const { exclusive, bound, outside } = opposite;
    if (exclusive !== undefined)
      return this.made({ type: "number", [schema[exclusive] === true ? bound : outside]: value });
    return typeof value === "number" ? this.made({ type: "number", [bound]: value }) : false;
  }

  /** Every integer is a number: not `number` excludes integers, and not `integer` leaves the numbers with a fraction. */
  #otherTypes(types: readonly JsonValue[], isNullable: boolean): JsonValue {
    const taken = new Set(isNullable ? [...types, "null"] : types);
    const left = TYPES.filter((type) => {
      if (type === "integer") return false;
      return !taken.has(type) && !(type === "number" && taken.has("integer"));
    });
    const options: JsonValue[] = left.length === 0 ? [] : [this.made({ type: left })];
    if (taken.has("integer") && !taken.has("number")) options.push(this.made({ type: "number", not: INTEGER }));
    return this.#anyOf(options);
  }

  /**
   * Returns the schema of all values but the given ones. All lists and objects are excluded if one is among them: the
   * grammar cannot exclude a single one. Numbers are the gaps between the excluded ones:
   *
   *     not in ["a", 1, true]: null, objects, arrays; strings but "a"; false; numbers below 1; numbers above 1
   */
  #otherValues(values: readonly JsonValue[]): JsonValue | undefined {
    this.#budgetOf().pay(values.length);
    const ofType = (type: string) => values.filter((value) => typeof value === type);
    const numbers = ofType("number").filter((value) => typeof value === "number");
    if (numbers.length > MAX_NUMBERS) return undefined;
    const hasObjects = values.some((value) => typeof value === "object" && value !== null);
    const types = [...(values.includes(null) ? [] : ["null"]), ...(hasObjects ? [] : ["object", "array"])];
    const options: JsonValue[] = types.length > 0 ? [this.made({ type: types })] : [];
    const texts = ofType("string");
    options.push(this.made(texts.length === 0 ? { type: "string" } : { type: "string", not: { enum: texts } }));
    const flags = [true, false].filter((flag) => !values.includes(flag));
    if (flags.length > 0) options.push(this.made({ enum: flags }));
    const sorted = [...new Set(numbers)].sort((a, b) => a - b);
    for (let at = 0; at <= sorted.length; at += 1) {
      const [low, high] = [sorted[at - 1], sorted[at]];
      options.push(
        this.made({
          type: "number",
          ...(low !== undefined && { exclusiveMinimum: low }),
          ...(high !== undefined && { exclusiveMaximum: high }),
        }),
      );
    }
    return this.made({ anyOf: options });
  }

  /** Joins the opposites of subschemas: by `anyOf` those of an `allOf`, and the other way round. */
  #ofEach(list: readonly JsonValue[], joint: "allOf" | "anyOf", depth: number): JsonValue | undefined {
    const parts: JsonValue[] = [];
    for (const schema of list) {
      const part = this.of(schema, depth);
      if (part === undefined) return undefined;
      parts.push(part);
    }
    return joint === "anyOf" ? this.#anyOf(parts) : this.made({ allOf: parts });
  }

  /** An `if` fails where the condition holds without `then`, or does not hold and `else` is violated. */
  #ofBranches(schema: SchemaObject, depth: number): JsonValue | undefined {
    const condition = schema.if ?? true;
    const not = this.of(condition, depth);
    const behind = this.of(schema[THEN] ?? true, depth);
    const otherwise = this.of(schema.else ?? true, depth);
    if (not === undefined || behind === undefined || otherwise === undefined) return undefined;
    return this.#anyOf([this.made({ allOf: [condition, behind] }), this.made({ allOf: [not, otherwise] })]);
  }

  #ofProperties(properties: SchemaObject, depth: number): JsonValue | undefined {
    const options: JsonValue[] = [];
    for (const [key, schema] of Object.entries(properties)) {
      const other = this.of(schema, depth);
      if (other === undefined) return undefined;
      if (other !== false) options.push(this.#object({ required: [key], properties: { [key]: other } }));
    }
    return this.#anyOf(options);
  }

  #object(schema: SchemaObject): JsonValue {
    return this.made({ type: "object", ...schema });
  }

  #anyOf(options: readonly JsonValue[]): JsonValue {
    const [only] = options;
    if (only === undefined) return false;
    return options.length === 1 ? only : this.made({ anyOf: options });
  }
}

/** The keyword as a constant: linters take an object literal with a `then` for a thenable. */
const THEN = "then";
