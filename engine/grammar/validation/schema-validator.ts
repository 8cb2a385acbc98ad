import type { JsonValue } from "../../gbnf/json-value.ts";
import { type Expression, parseExpression, UnsupportedPattern } from "../expressions/regular-expression.ts";
import { SchemaDocument, type SchemaNode } from "../schema/schema-document.ts";
import type { KeywordName } from "../schema/schema-keywords.ts";
import { CHECKS, type Look } from "./schema-checks.ts";

/**
 * Places in texts that are looked at with patterns, and what a look at a value with a schema costs beside that: some 80 ms at
 * most, as nobody else's tokens go out meanwhile. A hostile schema may ask for more.
 */
const MAX_WORK = 300_000;
const LOOK_WORK = 3;
/** Looks inside each other. */
const MAX_DEPTH = 1000;

/**
 * Checks values against a JSON Schema by the book: what a grammar has let through, and what a model wrote without one. Not
 * looked at are other documents, the `unevaluated` keywords, dynamic references, and patterns outside the subset of
 * `parseExpression`.
 */
export class SchemaValidator {
  readonly #document: SchemaDocument;
  /** What is being looked at, by the schema's id: a schema may lead back to itself. */
  readonly #open = new Map<number, Set<JsonValue>>();
  /** By pattern, which may be looked at for each item of a list. */
  readonly #expressions = new Map<string, Expression | undefined>();
  #work = 0;
  #depth = 0;
  #hasGivenUp = false;

  /** Throws `EngineError` INVALID_SCHEMA as `toGrammar` does. */
  constructor(schema: unknown) {
    this.#document = new SchemaDocument(schema, "");
  }

  /** Whether the value satisfies the schema; true too where that would take too long to find out. */
  allows(value: JsonValue): boolean {
    this.#work = 0;
    this.#hasGivenUp = false;
    return this.#check(this.#document.root, value) || this.#hasGivenUp;
  }

  #check(node: SchemaNode, value: JsonValue): boolean {
    const { schema } = node;
    if (typeof schema === "boolean") return schema;
    if (schema.nullable === true && value === null) return true;
    const open = this.#open.get(node.id) ?? new Set();
    if (!this.#afford(LOOK_WORK) || this.#depth > MAX_DEPTH) this.#hasGivenUp = true;
    if (this.#hasGivenUp || open.has(value)) return false;
    this.#open.set(node.id, open.add(value));
    this.#depth += 1;
    const look: Look = {
      schema,
      holds: (inner, of, ...path) => this.#check(this.#document.node(inner, [node.pointer, ...path].join("/")), of),
      afford: (work) => this.#afford(work),
      expressionOf: (pattern) => this.#expressionOf(pattern),
      refersTo: (reference, of) => {
        const target = this.#document.resolve(reference, `${node.pointer}/$ref`);
        return target === undefined || this.#check(target, of);
      },
    };
    const holds = Object.keys(schema).every((name) => !isKeyword(name) || CHECKS[name](look, value));
    this.#depth -= 1;
    open.delete(value);
    return holds;
  }

  #expressionOf(pattern: string): Expression | undefined {
    if (!this.#expressions.has(pattern)) this.#expressions.set(pattern, parsed(pattern));
    return this.#expressions.get(pattern);
  }

  #afford(work: number): boolean {
    this.#work += work;
    return this.#work <= MAX_WORK;
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
