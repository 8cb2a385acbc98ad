import { EngineError } from "../../errors.ts";
import type { JsonValue } from "../../gbnf/json-value.ts";
import { WorkBudget } from "../../work-budget.ts";
import { type Expression, parseExpression, UnsupportedPattern } from "../expressions/regular-expression.ts";
import { isList, SchemaDocument, type SchemaNode } from "../schema/schema-document.ts";
import type { KeywordName } from "../schema/schema-keywords.ts";
import { CHECKS, type Look } from "./schema-checks.ts";

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
    if (!this.#expressions.has(pattern)) this.#expressions.set(pattern, parsed(pattern));
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

function parsed(pattern: string): Expression | undefined {
  try {
    return parseExpression(pattern);
  } catch (error) {
    if (error instanceof UnsupportedPattern) return undefined;
    throw error;
  }
}

function isKeyword(name: string): name is KeywordName {
  return Object.hasOwn(CHECKS, name);
}
