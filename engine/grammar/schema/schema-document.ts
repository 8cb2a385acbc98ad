import type { JsonValue } from "../../gbnf/json-value.ts";
import { costlySchema, invalidSchema, type SchemaFacts } from "./invalid-schema.ts";
import { SchemaAddresses } from "./schema-addresses.ts";
import { keyword as keywordOf, SUBSCHEMA_LISTS, SUBSCHEMA_MAPS, SUBSCHEMAS } from "./schema-keywords.ts";

export type SchemaObject = { readonly [keyword: string]: JsonValue };

/** Each schema has one node, so that nodes, and their `id`, can be compared. */
export type SchemaNode = { readonly id: number; readonly schema: SchemaObject | boolean; readonly pointer: string };

export const MAX_SCHEMA_BYTES = 256 * 1024;
const MAX_LEVELS = 48;
const MAX_SCHEMAS = 8000;
const MAX_NESTING = 128;

const HOLDING: ReadonlySet<string> = new Set([...SUBSCHEMA_MAPS, ...SUBSCHEMA_LISTS, ...SUBSCHEMAS]);

const SHOWN_KEY = /^[A-Za-z0-9_$-]{1,64}$/;

/** A checked schema: forms of keywords, and limits on size (256 KiB), schemas (8,000) and levels (48). */
export class SchemaDocument {
  readonly root: SchemaNode;
  readonly bytes: number;
  readonly #at: string;
  readonly #nodes = new Map<SchemaObject, SchemaNode>();
  readonly #schema: JsonValue;
  readonly #addresses: SchemaAddresses;
  readonly #references = new Map<SchemaObject, SchemaNode | undefined>();
  readonly #keywords = new Set<string>();
  #count = 0;
  #hasRecursiveAnchor = false;

  /** Checks a schema. `at` is the field that held it. Throws `EngineError` INVALID_SCHEMA. */
  constructor(schema: unknown, at: string) {
    this.#at = at;
    if (isTooDeep(schema)) this.tooCostly("", "is nested too deeply");
    this.bytes = Buffer.byteLength(JSON.stringify(schema) ?? "");
    if (this.bytes > MAX_SCHEMA_BYTES) this.tooCostly("", "is too long", { max_bytes: String(MAX_SCHEMA_BYTES) });
    this.#schema = schema as JsonValue; // a value of bounded nesting that JSON.stringify accepts is JSON
    this.#addresses = new SchemaAddresses(this.#schema, shown);
    this.#check(this.#schema, "", 1);
    this.root = this.node(this.#schema, "");
  }

  get schemas(): Iterable<SchemaNode> {
    return this.#nodes.values();
  }

  hasAny(keywords: readonly string[]): boolean {
    return keywords.some((keyword) => this.#keywords.has(keyword));
  }

  known(schema: JsonValue): SchemaNode | undefined {
    return isObject(schema) ? this.#nodes.get(schema) : undefined;
  }

  node(schema: JsonValue, pointer: string): SchemaNode {
    if (typeof schema === "boolean") return { id: schema ? 0 : 1, schema, pointer };
    if (!isObject(schema)) return this.fail(pointer, "must be an object or true or false");
    const known = this.#nodes.get(schema);
    if (known !== undefined) return known;
    const node = { id: this.#nodes.size + 2, schema, pointer };
    this.#nodes.set(schema, node);
    return node;
  }

  /**
   * Undefined without a reference and for another document. Throws `EngineError` INVALID_SCHEMA if it names nothing.
   */
  resolve({ schema, pointer }: SchemaNode): SchemaNode | undefined {
    if (typeof schema === "boolean") return undefined;
    if (!this.#references.has(schema)) this.#references.set(schema, this.#named(schema, pointer));
    return this.#references.get(schema);
  }

  #named(schema: SchemaObject, pointer: string): SchemaNode | undefined {
    const { $ref, $dynamicRef, $recursiveRef } = schema;
    if (typeof $ref === "string") {
      const found = this.#addresses.find($ref, schema);
      if (found === "elsewhere") return undefined;
      if (found === undefined) return this.fail(`${pointer}/$ref`, "names nothing in this schema");
      return this.#found(found.value, found.pointer);
    }
    if (typeof $dynamicRef === "string") {
      const found = this.#addresses.dynamic($dynamicRef);
      return found && this.#found(found.value, found.pointer);
    }
    return $recursiveRef === "#" && !this.#hasRecursiveAnchor ? this.#found(this.#schema, "") : undefined;
  }

  #found(value: JsonValue, pointer: string): SchemaNode {
    const isNew = isObject(value) && !this.#nodes.has(value);
    const node = this.node(value, pointer);
    if (isNew) this.#check(value, pointer, 1);
    return node;
  }

  /** Returns the position of a keyword for messages: the field, and a JSON pointer with unusual keys masked. */
  path(pointer: string): string {
    return `${this.#at}#${pointer}`;
  }

  fail(pointer: string, what: string): never {
    throw invalidSchema(this.path(pointer), what);
  }

  tooCostly(pointer: string, what: string, facts?: SchemaFacts): never {
    throw costlySchema(this.path(pointer), what, facts);
  }

  #check(schema: JsonValue, pointer: string, level: number, around?: string): void {
    if (typeof schema === "boolean") return;
    if (!isObject(schema)) {
      this.fail(pointer, "must be an object or true or false");
      return;
    }
    this.#count += 1;
    if (this.#count > MAX_SCHEMAS) this.tooCostly("", `has more than ${MAX_SCHEMAS} schemas in it`);
    if (level > MAX_LEVELS) this.tooCostly(pointer, `is more than ${MAX_LEVELS} levels deep`);
    this.node(schema, pointer);
    if (schema.$recursiveAnchor === true && pointer !== "") this.#hasRecursiveAnchor = true;
    let holdsOthers = false;
    for (const keyword of Object.keys(schema)) {
      const known = keywordOf(keyword);
      if (known !== undefined) this.#keywords.add(keyword);
      const form = known?.form;
      holdsOthers ||= HOLDING.has(keyword);
      if (form && !form[1](schema[keyword])) this.fail(`${pointer}/${keyword}`, form[0]);
    }
    const base = this.#addresses.add(schema, pointer, around);
    if (holdsOthers) this.#checkInside(schema, pointer, (inner, path) => this.#check(inner, path, level + 1, base));
  }

  #checkInside(schema: SchemaObject, pointer: string, check: (inner: JsonValue, path: string) => void): void {
    for (const keyword of SUBSCHEMA_MAPS) {
      const map = schema[keyword];
      if (isObject(map))
        for (const [key, inner] of Object.entries(map)) check(inner, `${pointer}/${keyword}/${shown(key)}`);
      else if (map !== undefined) this.fail(`${pointer}/${keyword}`, "must be an object");
    }
    for (const keyword of SUBSCHEMA_LISTS) {
      const list = schema[keyword];
      if (isList(list) && list.length > 0)
        for (const [i, inner] of list.entries()) check(inner, `${pointer}/${keyword}/${i}`);
      else if (list !== undefined) this.fail(`${pointer}/${keyword}`, "must be a list of schemas");
    }
    for (const keyword of SUBSCHEMAS) {
      const inner = schema[keyword];
      if (inner === undefined) continue;
      if (keyword !== "items" || !isList(inner)) check(inner, `${pointer}/${keyword}`);
      else for (const [i, item] of inner.entries()) check(item, `${pointer}/items/${i}`);
    }
  }
}

export function isObject(value: JsonValue | undefined): value is SchemaObject {
  return typeof value === "object" && value !== null && !isList(value);
}

export function isList(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

/** Returns a key for a message; unusual keys are masked, because they may hold any text of the caller. */
export function shown(key: string): string {
  return SHOWN_KEY.test(key) ? key : "*";
}

/** The recursion stops at the limit: callers choose the depth of the text. */
function isTooDeep(value: unknown, depth = 0): boolean {
  if (depth > MAX_NESTING) return true;
  if (typeof value !== "object" || value === null) return false;
  const inside: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  return inside.some((each) => isTooDeep(each, depth + 1));
}
