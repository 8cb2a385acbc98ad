import type { JsonValue } from "../../gbnf/json-value.ts";

/** The address of a document that has none of its own, so that references in it can be resolved. */
const NOWHERE = "json-schema://document/";
/** The drafts in which a schema's address stands under `id`. */
const OLD_DRAFT = /\/draft-0[34]\//;

type SchemaObject = { readonly [keyword: string]: JsonValue };

/** A schema with its place in the document. */
export type PlacedSchema = { readonly value: JsonValue; readonly pointer: string };

/** Returns a key as it may stand in a message, as what a caller named oddly could be anything. */
export type ShowKey = (key: string) => string;

/**
 * Knows by which addresses the schemas of a document can be referred to: `$id` and, in old drafts, `id`, which give the
 * schemas inside them another base, and `$anchor`.
 */
export class SchemaAddresses {
  readonly #root: PlacedSchema;
  readonly #show: ShowKey;
  readonly #idKeyword: "$id" | "id";
  /** The bases of schemas; those that are not in it have the one of the document. */
  readonly #bases = new Map<SchemaObject, string>();
  /** The schemas that have an address, or an anchor in one. */
  readonly #named = new Map<string, PlacedSchema>();
  /** The schemas with a dynamic anchor, by its name; undefined where two have the same. */
  readonly #dynamic = new Map<string, PlacedSchema | undefined>();

  /** The schemas that pointers from the root name, which are the same few again and again. */
  readonly #pointed = new Map<string, PlacedSchema>();

  /** Makes the addresses of a document, in which only its root is known yet. */
  constructor(root: JsonValue, show: ShowKey) {
    this.#root = { value: root, pointer: "" };
    this.#show = show;
    this.#idKeyword = OLD_DRAFT.test(String(ownValue(root, "$schema"))) ? "id" : "$id";
    this.#named.set(NOWHERE, this.#root);
  }

  /** Notes a schema and returns its base, which the schemas inside it have too. */
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

  /**
   * Returns what a reference in a schema names: "elsewhere" for another document, and undefined for what names nothing.
   */
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
    // Many write pointers from the root of the whole, whatever address a schema between has.
    return this.#inside(resource, text) ?? (reference.startsWith("#") ? this.#inside(this.#root, text) : undefined);
  }

  /** Returns the schema with a dynamic anchor that a reference names; undefined where there is not exactly one. */
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

/** Returns a member of an object or an item of a list, by its own key. */
function ownValue(of: JsonValue | undefined, key: string): JsonValue | undefined {
  return typeof of === "object" && of !== null && Object.hasOwn(of, key) ? Reflect.get(of, key) : undefined;
}

function resolved(reference: string, base: string): string | undefined {
  // The usual case, of which there are thousands in a large schema.
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
