import type { Tool } from "../../proto/gen/svc/inference/v1/messages.ts";
import { WorkBudget } from "../work-budget.ts";

export type JsonType = "string" | "number" | "boolean" | "null" | "object" | "array";

/** The step of a path into a list, to any of its entries. */
export const ITEM = Symbol("item");

export type ArgumentPath = readonly (string | typeof ITEM)[];

export type ArgumentTypes = {
  /** Undefined for any type. Throws `WorkSpent` when `budget` is used up. */
  (toolName: string, path: ArgumentPath, budget?: WorkBudget): ReadonlySet<JsonType> | undefined;
  /** The `properties` of the tool's schema; none if unknown. Absent: unknown for all tools. */
  readonly declared?: (toolName: string) => ReadonlySet<string>;
};

type Schema = Readonly<Record<string, unknown>>;

const JSON_TYPES: Readonly<Record<string, JsonType>> = {
  string: "string",
  number: "number",
  integer: "number",
  boolean: "boolean",
  null: "null",
  object: "object",
  array: "array",
};

/** Schemas visited per argument, about a millisecond; types beyond it are unrestricted. */
const MAX_WORK = 1200;
const ENTRIES_PER_WORK = 16;
const MAX_DEPTH = 64;
/** In characters, one or two milliseconds of reading; types of a longer schema are unrestricted. */
const MAX_SCHEMA_LENGTH = 64 * 1024;

/** The types that a schema declares for a property: none declared, a set, or (undefined) any. */
type Declared = "undeclared" | ReadonlySet<JsonType> | undefined;

/** Read on first use. A cyclic, exponentially referring or invalid schema allows any type. Never throws. */
export function argumentTypes(tools: readonly Pick<Tool, "name" | "parametersJsonSchema">[]): ArgumentTypes {
  const texts = new Map(tools.map(({ name, parametersJsonSchema }) => [name, parametersJsonSchema]));
  const roots = new Map<string, { readonly root: unknown; readonly types: Map<string, ReturnType<ArgumentTypes>> }>();
  const knownOf = (toolName: string) => {
    const known = roots.get(toolName) ?? { root: parsed(texts.get(toolName) ?? ""), types: new Map() };
    roots.set(toolName, known);
    return known;
  };
  const types = (toolName: string, path: ArgumentPath, budget?: WorkBudget) => {
    const known = knownOf(toolName);
    const key = JSON.stringify(path.map((step) => (step === ITEM ? 0 : step)));
    if (!known.types.has(key)) {
      const search = new TypeSearch(known.root, path);
      known.types.set(key, search.types());
      budget?.pay(search.work);
    }
    return known.types.get(key);
  };
  return Object.assign(types, { declared: (toolName: string) => declaredNames(knownOf(toolName).root) });
}

function declaredNames(root: unknown): ReadonlySet<string> {
  return new Set(isSchema(root) && isSchema(root.properties) ? Object.keys(root.properties) : []);
}

function parsed(text: string): unknown {
  if (text.length > MAX_SCHEMA_LENGTH) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Each schema is visited once per step of the path, however many paths lead to it. */
class TypeSearch {
  readonly #root: unknown;
  readonly #path: ArgumentPath;
  readonly #types = new Map<Schema, ReadonlySet<JsonType> | undefined>();
  readonly #declared: readonly Map<Schema, Declared>[];
  readonly #targets = new Map<string, unknown>();
  readonly #budget = new WorkBudget(MAX_WORK);

  constructor(root: unknown, path: ArgumentPath) {
    this.#root = root;
    this.#path = path;
    this.#declared = path.map(() => new Map());
  }

  get work(): number {
    return this.#budget.spent;
  }

  types(): ReadonlySet<JsonType> | undefined {
    const declared = this.#declaredBy(this.#root, 0, 0);
    return this.#budget.isSpent || declared === "undeclared" ? undefined : declared;
  }

  /** Directly or through `$ref`, `allOf`, `anyOf` and `oneOf`. */
  #declaredBy(schema: unknown, at: number, depth: number): Declared {
    const known = this.#declared[at];
    const step = this.#path[at];
    if (!isSchema(schema) || known === undefined || step === undefined) return "undeclared";
    if (known.has(schema)) return known.get(schema);
    if (depth > MAX_DEPTH || !this.#afford(schema)) return undefined;
    // A cycle allows any type.
    known.set(schema, undefined);
    const said = this.#conjuncts(schema)
      .map((each) => this.#declaredBy(each, at, depth + 1))
      .filter(isDeclared);
    const next = inside(schema, step);
    if (next !== "undeclared") {
      const isLast = at === this.#path.length - 1;
      const there = isLast ? this.#typesOf(next, depth + 1) : this.#declaredBy(next, at + 1, depth + 1);
      if (there !== "undeclared") said.push(there);
    }
    const alternatives = [...listOf(schema.anyOf), ...listOf(schema.oneOf)]
      .map((each) => this.#declaredBy(each, at, depth + 1))
      .filter(isDeclared);
    if (alternatives.length > 0) said.push(union(alternatives));
    const declared = said.length === 0 ? "undeclared" : intersection(said);
    known.set(schema, declared);
    return declared;
  }

  #typesOf(schema: unknown, depth: number): ReadonlySet<JsonType> | undefined {
    if (!isSchema(schema)) return undefined;
    if (this.#types.has(schema)) return this.#types.get(schema);
    if (depth > MAX_DEPTH || !this.#afford(schema)) return undefined;
    this.#types.set(schema, undefined);
    const all = this.#conjuncts(schema).map((each) => this.#typesOf(each, depth + 1));
    const alternatives = [schema.anyOf, schema.oneOf].map((list) =>
      union(listOf(list).map((each) => this.#typesOf(each, depth + 1))),
    );
    const types = intersection([ownTypes(schema), ...all, ...alternatives]);
    this.#types.set(schema, types);
    return types;
  }

  #conjuncts(schema: Schema): readonly unknown[] {
    return [this.#referenced(schema), ...listOf(schema.allOf)];
  }

  #referenced({ $ref }: Schema): unknown {
    if (typeof $ref !== "string" || !$ref.startsWith("#")) return undefined;
    const known = this.#targets.get($ref);
    if (known !== undefined) return known;
    if (!this.#budget.spend(1 + $ref.length / ENTRIES_PER_WORK)) return undefined;
    let value = this.#root;
    for (const step of $ref.slice(1).split("/").slice(1)) {
      const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
      value =
        typeof value === "object" && value !== null && Object.hasOwn(value, key) ? Reflect.get(value, key) : undefined;
    }
    this.#targets.set($ref, value);
    return value;
  }

  #afford({ type, enum: values, allOf, anyOf, oneOf }: Schema): boolean {
    const entries = [type, values, allOf, anyOf, oneOf].reduce<number>((sum, list) => sum + listOf(list).length, 0);
    return this.#budget.spend(1 + entries / ENTRIES_PER_WORK);
  }
}

function inside({ properties, items }: Schema, step: string | typeof ITEM): unknown {
  if (step === ITEM) return items ?? "undeclared";
  return isSchema(properties) && Object.hasOwn(properties, step) ? properties[step] : "undeclared";
}

function isDeclared(declared: Declared): declared is Exclude<Declared, "undeclared"> {
  return declared !== "undeclared";
}

function ownTypes(schema: Schema): ReadonlySet<JsonType> | undefined {
  const { type } = schema;
  const named = (typeof type === "string" ? [type] : listOf(type)).flatMap((each) => jsonType(each) ?? []);
  if (named.length > 0) return new Set(named);
  if (Object.hasOwn(schema, "const")) return new Set([jsonTypeOf(schema.const)]);
  if (Array.isArray(schema.enum)) return new Set(schema.enum.map(jsonTypeOf));
  if (schema.properties !== undefined) return new Set(["object"]);
  return schema.items === undefined ? undefined : new Set(["array"]);
}

function jsonTypeOf(value: unknown): JsonType {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return jsonType(typeof value) ?? "object";
}

function jsonType(name: unknown): JsonType | undefined {
  return typeof name === "string" && Object.hasOwn(JSON_TYPES, name) ? JSON_TYPES[name] : undefined;
}

function intersection(sets: readonly (ReadonlySet<JsonType> | undefined)[]): ReadonlySet<JsonType> | undefined {
  let common: ReadonlySet<JsonType> | undefined;
  for (const set of sets) {
    if (set === undefined) continue;
    common = common === undefined ? set : new Set([...common].filter((type) => set.has(type)));
  }
  return common;
}

/** Returns the union of the sets; undefined without sets, or if one of them allows any type. */
function union(sets: readonly (ReadonlySet<JsonType> | undefined)[]): ReadonlySet<JsonType> | undefined {
  if (sets.length === 0 || sets.includes(undefined)) return undefined;
  return new Set(sets.flatMap((set) => [...(set ?? [])]));
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isSchema(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
