import { EngineError } from "../../errors.ts";
import type { JsonValue } from "../../gbnf/json-value.ts";
import { keyword as keywordOf, SUBSCHEMA_LISTS, SUBSCHEMA_MAPS, SUBSCHEMAS } from "./schema-keywords.ts";

/** The schema exceeds the limits on the cost of a grammar, whatever its content. */
export class CostlySchema extends EngineError {}

/** `where` is the field, `#` and a JSON pointer with unusual keys masked; both are reported as facts. */
export function invalidSchema(where: string, what: string, facts?: SchemaFacts): EngineError {
  return new EngineError("INVALID_SCHEMA", ...of(where, what, facts));
}

export function costlySchema(where: string, what: string, facts?: SchemaFacts): CostlySchema {
  return new CostlySchema("INVALID_SCHEMA", ...of(where, what, { fault: "costly", ...facts }));
}

export type SchemaFacts = {
  /** Default: the schema is invalid or unsatisfiable. */
  readonly fault?: "costly" | "not_enforceable";
  readonly max_bytes?: string;
};

function of(
  where: string,
  what: string,
  facts: SchemaFacts = {},
): readonly [message: string, facts: Readonly<Record<string, string>>] {
  const [field = "", pointer = ""] = where.split("#");
  return [`Invalid JSON Schema at ${where}: ${what}.`, { field, pointer, ...facts }];
}

const NOWHERE = "json-schema://document/";
/** Drafts that write the address of a schema as `id`. */
const OLD_DRAFT = /\/draft-0[34]\//;

type PlacedSchema = { readonly value: JsonValue; readonly pointer: string };

type ShowKey = (key: string) => string;

/** By `$id` (`id` in old drafts), the base of the schemas inside, and by `$anchor`. */
class SchemaAddresses {
  readonly #root: PlacedSchema;
  readonly #show: ShowKey;
  readonly #idKeyword: "$id" | "id";
  readonly #bases = new Map<SchemaObject, string>();
  readonly #named = new Map<string, PlacedSchema>();
  /** The schemas by dynamic anchor; undefined if two share an anchor. */
  readonly #dynamic = new Map<string, PlacedSchema | undefined>();

  readonly #pointed = new Map<string, PlacedSchema>();

  constructor(root: JsonValue, show: ShowKey) {
    this.#root = { value: root, pointer: "" };
    this.#show = show;
    this.#idKeyword = OLD_DRAFT.test(String(ownValue(root, "$schema"))) ? "id" : "$id";
    this.#named.set(NOWHERE, this.#root);
  }

  /** Registers a schema and returns its base, which the schemas inside inherit. */
  add(schema: SchemaObject, pointer: string, around = NOWHERE): string {
    const placed = { value: schema, pointer };
    const id = schema[this.#idKeyword];
    let base = around;
    if (typeof id === "string" && id.startsWith("#")) this.#name(`${base}${id}`, placed);
    else if (typeof id === "string") {
      base = resolved(id, around)?.split("#")[0] ?? around;
      this.#name(base, placed);
    }
    for (const keyword of ["$anchor", "$dynamicAnchor"]) {
      const anchor = schema[keyword];
      if (typeof anchor === "string") this.#name(`${base}#${anchor}`, placed);
    }
    const { $dynamicAnchor: dynamic } = schema;
    if (typeof dynamic === "string") this.#dynamic.set(dynamic, this.#dynamic.has(dynamic) ? undefined : placed);
    if (base !== NOWHERE) this.#bases.set(schema, base);
    return base;
  }

  /** Returns the target of a reference: "elsewhere" for another document, undefined if it names nothing. */
  find(reference: string, from: SchemaObject): PlacedSchema | "elsewhere" | undefined {
    const base = this.#bases.get(from) ?? NOWHERE;
    if (base !== NOWHERE || !reference.startsWith("#/")) return this.#search(reference, base);
    const known = this.#pointed.get(reference);
    if (known !== undefined) return known;
    const found = this.#search(reference, base);
    if (typeof found === "object") this.#pointed.set(reference, found);
    return found;
  }

  #search(reference: string, base: string): PlacedSchema | "elsewhere" | undefined {
    const target = resolved(reference, base);
    if (target === undefined) return reference.startsWith("#") ? undefined : "elsewhere";
    const at = target.indexOf("#");
    const [address, fragment] = at < 0 ? [target, ""] : [target.slice(0, at), target.slice(at + 1)];
    const text = decoded(fragment);
    if (text === undefined) return undefined;
    const resource = this.#named.get(address);
    if (text !== "" && !text.startsWith("/")) {
      const anchored = this.#named.get(`${address}#${text}`);
      return anchored ?? (resource === undefined ? "elsewhere" : undefined);
    }
    if (resource === undefined) return "elsewhere";
    // Many authors write pointers from the root of the document, whatever addresses the schemas between have.
    return this.#inside(resource, text) ?? (reference.startsWith("#") ? this.#inside(this.#root, text) : undefined);
  }

  /** Returns the schema with the dynamic anchor of a reference; undefined unless there is exactly one. */
  dynamic(reference: string): PlacedSchema | undefined {
    return reference.startsWith("#") ? this.#dynamic.get(reference.slice(1)) : undefined;
  }

  #name(address: string, placed: PlacedSchema): void {
    if (!this.#named.has(address)) this.#named.set(address, placed);
  }

  #inside(resource: PlacedSchema, fragment: string): PlacedSchema | undefined {
    let value: JsonValue | undefined = resource.value;
    let { pointer } = resource;
    for (const key of fragment.split("/").slice(1)) {
      const name = key.includes("~") ? key.replaceAll("~1", "/").replaceAll("~0", "~") : key;
      value = ownValue(value, name);
      pointer += `/${this.#show(name)}`;
    }
    return value === undefined ? undefined : { value, pointer };
  }
}

function ownValue(of: JsonValue | undefined, key: string): JsonValue | undefined {
  return typeof of === "object" && of !== null && Object.hasOwn(of, key) ? Reflect.get(of, key) : undefined;
}

function resolved(reference: string, base: string): string | undefined {
  // The common case: a large schema has thousands of such references.
  if (reference.startsWith("#") && base === NOWHERE) return `${NOWHERE}${reference}`;
  try {
    return new URL(reference, base).href;
  } catch {
    return undefined;
  }
}

function decoded(fragment: string): string | undefined {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return undefined;
  }
}

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

  /** Undefined without a reference and for another document. Throws INVALID_SCHEMA if it names nothing. */
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

export function isOfType(types: readonly JsonValue[], value: JsonValue): boolean {
  if (typeof value === "number")
    return types.includes("number") || (types.includes("integer") && Number.isInteger(value));
  return types.includes(value === null ? "null" : isList(value) ? "array" : typeof value);
}

export function isObject(value: unknown): value is SchemaObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
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
