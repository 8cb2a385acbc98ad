import { EngineError } from "../../errors.ts";
import type { JsonValue } from "../../gbnf/json-value.ts";
import { WorkBudget } from "../../work-budget.ts";
import { type Expression, ifSupported, matchesExpression, parseExpression } from "../expressions/regular-expression.ts";
import {
  isList,
  isObject,
  isOfType,
  SchemaDocument,
  type SchemaNode,
  type SchemaObject,
} from "../schema/schema-document.ts";
import { allowedFormat, type KeywordName } from "../schema/schema-keywords.ts";

const KEYS_PER_WORK = 4;

type Look = {
  readonly schema: SchemaObject;
  readonly holds: (inner: JsonValue, value: JsonValue, ...path: string[]) => boolean;
  /** The work left for this answer. A keyword charges for its own iteration; nested checks charge for themselves. */
  readonly budget: WorkBudget;
  readonly canonical: (value: JsonValue) => string;
  /** Parses a pattern; undefined outside of the subset of `parseExpression`. */
  readonly expressionOf: (pattern: string) => Expression | undefined;
  readonly refersTo: (value: JsonValue) => boolean;
};

/** Returns whether a value satisfies a keyword; true for values of types that the keyword does not constrain. */
type Check = (look: Look, value: JsonValue) => boolean;

const notLookedAt: Check = () => true;

const ofNumber =
  (name: string, holds: (value: number, bound: number, schema: SchemaObject) => boolean): Check =>
  ({ schema }, value) => {
    const bound = schema[name];
    return typeof value !== "number" || typeof bound !== "number" || holds(value, bound, schema);
  };

const ofSize =
  (name: string, fits: (look: Look, value: JsonValue, bound: number) => boolean): Check =>
  (look, value) => {
    const bound = look.schema[name];
    return typeof bound !== "number" || fits(look, value, bound);
  };
const ofLength = (name: string, most: boolean): Check =>
  ofSize(name, ({ budget }, value, bound) => {
    if (typeof value !== "string") return true;
    // A character is one or two UTF-16 units, so most lengths need no count of characters.
    if (most ? value.length <= bound : value.length / 2 >= bound) return true;
    if (most ? value.length / 2 > bound : value.length < bound) return false;
    if (!budget.spendOnText(4 * value.length)) return true;
    let length = 0;
    for (const _character of value) length += 1;
    return most ? length <= bound : length >= bound;
  });
const ofCount = (name: string, countOf: (value: JsonValue, look: Look) => number | undefined, most: boolean): Check =>
  ofSize(name, (look, value, bound) => {
    const count = countOf(value, look);
    return count === undefined || (most ? count <= bound : count >= bound);
  });
const items = (value: JsonValue) => (isList(value) ? value.length : undefined);
const members = (value: JsonValue, look: Look) => (isObject(value) ? membersOf(look, value).length : undefined);

function membersOf({ budget }: Look, value: JsonValue): readonly (readonly [key: string, member: JsonValue])[] {
  if (!isObject(value)) return [];
  const entries = Object.entries(value);
  budget.spend(entries.length);
  return entries;
}

const valuesOf = new WeakMap<readonly JsonValue[], ReadonlySet<string>>();

/** Returns the canonical texts of a list, cached: an `enum` may be long and checked for every item of a list. */
function canonicalValues({ canonical, budget }: Look, list: readonly JsonValue[]): ReadonlySet<string> {
  const known = valuesOf.get(list);
  if (known !== undefined) return known;
  const values = new Set(list.map(canonical));
  if (!budget.isSpent) valuesOf.set(list, values);
  return values;
}

function countOf({ schema, holds }: Look, name: string, value: JsonValue, enough: number): number {
  const list = schema[name];
  let count = 0;
  for (const [i, inner] of isList(list) ? list.entries() : []) {
    if (count < enough && holds(inner, value, name, String(i))) count += 1;
  }
  return count;
}

const CHECKS: Readonly<Record<KeywordName, Check>> = {
  type: ({ schema: { type = null }, budget }, value) =>
    !isList(type) ? isOfType([type], value) : !budget.spend(type.length / KEYS_PER_WORK) || isOfType(type, value),
  // `nullable` only widens other keywords; the validator applies it.
  nullable: () => true,
  enum: (look, value) => isList(look.schema.enum) && canonicalValues(look, look.schema.enum).has(look.canonical(value)),
  const: ({ schema, canonical }, value) => canonical(schema.const ?? null) === canonical(value),
  $ref: ({ refersTo }, value) => refersTo(value),
  $dynamicRef: ({ schema: { $ref }, refersTo }, value) => $ref !== undefined || refersTo(value),
  $recursiveRef: ({ schema: { $ref }, refersTo }, value) => $ref !== undefined || refersTo(value),
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
  // In old drafts the exclusive keywords are flags of these.
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
    // 0.3 counts as a multiple of 0.1, which binary division alone would deny.
    const quotient = value / step;
    return Math.abs(quotient - Math.round(quotient)) <= 1e-9 * Math.max(1, Math.abs(quotient));
  }),
  minLength: ofLength("minLength", false),
  maxLength: ofLength("maxLength", true),
  pattern: (look, value) => {
    const { pattern } = look.schema;
    return typeof value !== "string" || typeof pattern !== "string" || matches(look, pattern, value) !== false;
  },
  format: ({ schema: { format }, budget }, value) => {
    const expression = typeof value === "string" && typeof format === "string" ? allowedFormat(format) : undefined;
    return expression === undefined || isMatch(whole(expression), String(value), budget) !== false;
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
  minItems: ofCount("minItems", items, false),
  maxItems: ofCount("maxItems", items, true),
  uniqueItems: ({ schema, canonical }, value) =>
    schema.uniqueItems !== true || !isList(value) || new Set(value.map(canonical)).size === value.length,
  contains: ({ schema, holds }, value) => {
    if (!isList(value)) return true;
    const { contains = true, minContains = 1, maxContains = Number.POSITIVE_INFINITY } = schema;
    const count = value.filter((item) => holds(contains, item, "contains")).length;
    return count >= Number(minContains) && count <= Number(maxContains);
  },
  unevaluatedItems: notLookedAt,
  properties: (look, value) => {
    const { properties } = look.schema;
    if (!isObject(properties)) return true;
    return membersOf(look, value).every(
      ([key, member]) =>
        !Object.hasOwn(properties, key) || look.holds(properties[key] ?? true, member, "properties", "*"),
    );
  },
  required: ({ schema: { required }, budget }, value) =>
    !isObject(value) ||
    !isList(required) ||
    !budget.spend(required.length / KEYS_PER_WORK) ||
    required.every((key) => Object.hasOwn(value, String(key))),
  additionalProperties: (look, value) => {
    const { schema, holds } = look;
    const { properties, patternProperties, additionalProperties = true } = schema;
    const isOther = (key: string) =>
      !(isObject(properties) && Object.hasOwn(properties, key)) &&
      !(
        isObject(patternProperties) &&
        Object.keys(patternProperties).some((pattern) => matches(look, pattern, key) !== false)
      );
    return membersOf(look, value).every(
      ([key, member]) => !isOther(key) || holds(additionalProperties, member, "additionalProperties"),
    );
  },
  patternProperties: (look, value) => {
    const { patternProperties } = look.schema;
    if (!isObject(patternProperties)) return true;
    return Object.entries(patternProperties).every(([pattern, inner]) =>
      membersOf(look, value).every(
        ([key, member]) => matches(look, pattern, key) !== true || look.holds(inner, member, "patternProperties", "*"),
      ),
    );
  },
  unevaluatedProperties: notLookedAt,
  propertyNames: (look, value) =>
    membersOf(look, value).every(([key]) => look.holds(look.schema.propertyNames ?? true, key, "propertyNames")),
  minProperties: ofCount("minProperties", members, false),
  maxProperties: ofCount("maxProperties", members, true),
  dependentRequired: (look, value) => dependencies(look, "dependentRequired", value),
  dependentSchemas: (look, value) => dependencies(look, "dependentSchemas", value),
  dependencies: (look, value) => dependencies(look, "dependencies", value),
};

function dependencies({ schema, holds, budget }: Look, name: string, value: JsonValue): boolean {
  const map = schema[name];
  if (!isObject(map) || !isObject(value)) return true;
  return Object.entries(map).every(([key, inner]) => {
    if (!budget.spend(1 / KEYS_PER_WORK) || !Object.hasOwn(value, key)) return true;
    if (!isList(inner)) return name === "dependentRequired" || holds(inner, value, name, "*");
    return !budget.spend(inner.length / KEYS_PER_WORK) || inner.every((other) => Object.hasOwn(value, String(other)));
  });
}

/** Undefined if undecided. A caller's expression never runs in a backtracking engine. */
function matches({ expressionOf, budget }: Look, pattern: string, text: string): boolean | undefined {
  const expression = expressionOf(pattern);
  return expression && isMatch(expression, text, budget);
}

function isMatch(expression: Expression, text: string, budget: WorkBudget): boolean | undefined {
  // The matcher keeps a position for each character from the start.
  if (!budget.spend(text.length / KEYS_PER_WORK)) return undefined;
  return matchesExpression(expression, text, (places) => budget.spend(places));
}

const whole = (expression: Expression): Expression => ({
  kind: "sequence",
  parts: [{ kind: "start" }, expression, { kind: "end" }],
});

/** About 30 ms of one core, below the limit of 50 ms for the work of one caller. */
export const CHECK_WORK = 120_000;
const LOOK_WORK = 5;
const MAX_DEPTH = 1000;

/** `unchecked`: the check exceeds the budget or is not possible. */
export type Verdict = "allowed" | "refused" | "unchecked";

/** Not evaluated: other documents, `unevaluated` keywords, dynamic references, and patterns outside of the subset. */
export class SchemaValidator {
  readonly #document: SchemaDocument;
  /** The values being checked, by schema id: a schema may lead back to itself. */
  readonly #open = new Map<number, Set<JsonValue>>();
  readonly #expressions = new Map<string, Expression | undefined>();
  readonly #references = new Map<number, SchemaNode | undefined>();
  readonly #canonical = new Map<JsonValue, string>();
  #budget = new WorkBudget(CHECK_WORK);
  #depth = 0;
  #isTooDeep = false;

  /** Creates the validator of a schema. Throws `EngineError` INVALID_SCHEMA as `toGrammar` does. */
  constructor(schema: unknown) {
    this.#document = schema instanceof SchemaDocument ? schema : new SchemaDocument(schema, "");
  }

  /** Checks a value against the schema or the given inner schema, within the budget. Never throws. */
  check(value: JsonValue, budget: WorkBudget = new WorkBudget(CHECK_WORK), node = this.#document.root): Verdict {
    this.#budget = budget;
    this.#depth = 0;
    this.#isTooDeep = false;
    this.#open.clear();
    try {
      const holds = this.#check(node, value);
      return this.#hasGivenUp ? "unchecked" : holds ? "allowed" : "refused";
    } catch {
      // An unexpected failure of the check must not fail the answer.
      return "unchecked";
    } finally {
      this.#canonical.clear();
    }
  }

  get #hasGivenUp(): boolean {
    return this.#isTooDeep || this.#budget.isSpent;
  }

  #check(node: SchemaNode, value: JsonValue): boolean {
    const { schema } = node;
    if (typeof schema === "boolean") return schema;
    if (schema.nullable === true && value === null) return true;
    const open = this.#open.get(node.id) ?? new Set();
    const names = Object.keys(schema);
    this.#budget.spend(LOOK_WORK + names.length / 2);
    if (this.#depth > MAX_DEPTH) this.#isTooDeep = true;
    if (this.#hasGivenUp || open.has(value)) return false;
    this.#open.set(node.id, open.add(value));
    this.#depth += 1;
    const look: Look = {
      schema,
      holds: (inner, of, ...path) => {
        const { pointer } = node;
        return this.#check(this.#document.known(inner) ?? this.#document.node(inner, [pointer, ...path].join("/")), of);
      },
      budget: this.#budget,
      canonical: (of) => this.#canonicalOf(of, 0),
      expressionOf: (pattern) => this.#expressionOf(pattern),
      refersTo: (of) => {
        const target = this.#referenced(node);
        return target === undefined || this.#check(target, of);
      },
    };
    const holds = names.every((name) => !isKeyword(name) || CHECKS[name](look, value));
    this.#depth -= 1;
    open.delete(value);
    return holds;
  }

  #referenced(node: SchemaNode): SchemaNode | undefined {
    if (!this.#references.has(node.id)) {
      this.#budget.spend(1);
      this.#references.set(node.id, resolved(this.#document, node));
    }
    return this.#references.get(node.id);
  }

  #canonicalOf(value: JsonValue, depth: number): string {
    if (typeof value === "string") return this.#budget.spendOnText(value.length) ? JSON.stringify(value) : "";
    if (typeof value !== "object" || value === null) return this.#budget.spend(1) ? String(value) : "";
    const known = this.#canonical.get(value);
    if (known !== undefined) return this.#budget.spendOnText(known.length) ? known : "";
    if (depth > MAX_DEPTH) this.#isTooDeep = true;
    const size = isList(value) ? value.length : Object.keys(value).length;
    if (!this.#budget.spend(size) || this.#isTooDeep) return "";
    const text = isList(value)
      ? `[${value.map((item) => this.#canonicalOf(item, depth + 1)).join()}]`
      : `{${Object.entries(value)
          .sort(([a], [b]) => (a < b ? -1 : 1))
          .map(([key, member]) => `${JSON.stringify(key)}:${this.#canonicalOf(member, depth + 1)}`)
          .join()}}`;
    this.#canonical.set(value, text);
    return text;
  }

  #expressionOf(pattern: string): Expression | undefined {
    if (!this.#expressions.has(pattern))
      this.#expressions.set(
        pattern,
        ifSupported(() => parseExpression(pattern)),
      );
    return this.#expressions.get(pattern);
  }
}

/** Undefined, which allows any value, for another document or a reference that names nothing. */
function resolved(document: SchemaDocument, node: SchemaNode): SchemaNode | undefined {
  try {
    return document.resolve(node);
  } catch (error) {
    if (error instanceof EngineError) return undefined;
    throw error;
  }
}

function isKeyword(name: string): name is KeywordName {
  return Object.hasOwn(CHECKS, name);
}
