import type { JsonValue } from "../../gbnf/json-value.ts";

const NOWHERE = "json-schema://document/";
/** Drafts that write the address of a schema as `id`. */
const OLD_DRAFT = /\/draft-0[34]\//;

type SchemaObject = { readonly [keyword: string]: JsonValue };

export type PlacedSchema = { readonly value: JsonValue; readonly pointer: string };

export type ShowKey = (key: string) => string;

/** By `$id` (`id` in old drafts), the base of the schemas inside, and by `$anchor`. */
export class SchemaAddresses {
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
