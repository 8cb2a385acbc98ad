import type { WorkBudget } from "../../work-budget.ts";
import { allowedTypes, fixedValues, type Listing, type PlainNode } from "./schema-alternatives.ts";
import { isList, isObject, type SchemaObject } from "./schema-document.ts";

/** The maximum parallel readings of a text: llama.cpp follows all of them for every token. */
const MAX_READINGS = 64;

type Edge = { readonly to: string; readonly readings: number };

/** Counts the readings of a text: alternatives that begin alike multiply, in recursive schemas with every level. */
export class ReadingsGraph {
  readonly #edges = new Map<string, Edge[]>();
  /** The visit index of a node, later the lowest index in its cycle. */
  readonly #low = new Map<string, number>();
  readonly #most = new Map<string, number>();
  readonly #path: string[] = [];

  add(from: string, to: string, readings: number): void {
    const edges = this.#edges.get(from);
    if (edges === undefined) this.#edges.set(from, [{ to, readings }]);
    else edges.push({ to, readings });
  }

  /** The nodes reachable from `from` must be complete: each node is visited once in all calls. */
  isTooAmbiguous(from: string): boolean {
    if (!this.#most.has(from)) this.#visit(from);
    return (this.#most.get(from) ?? 1) > MAX_READINGS;
  }

  /** Tarjan's strongly connected components, each after those that it leads to. */
  #visit(node: string): number {
    const index = this.#low.size;
    this.#low.set(node, index);
    this.#path.push(node);
    let lowest = index;
    for (const { to } of this.#edges.get(node) ?? [])
      if (!this.#most.has(to)) lowest = Math.min(lowest, this.#low.get(to) ?? this.#visit(to));
    this.#low.set(node, lowest);
    if (lowest === index) this.#weigh(new Set(this.#path.splice(this.#path.lastIndexOf(node))));
    return lowest;
  }

  #weigh(circle: ReadonlySet<string>): void {
    let most = 1;
    for (const node of circle)
      for (const { to, readings } of this.#edges.get(node) ?? []) {
        const behind = circle.has(to) ? (readings > 1 ? Number.POSITIVE_INFINITY : 1) : (this.#most.get(to) ?? 1);
        most = Math.max(most, readings * behind);
      }
    for (const node of circle) this.#most.set(node, most);
  }
}

/** How many alternatives can share a text up to a value inside them, or up to the end of a string or number. */
export function readingsOf(conversion: Listing, alternatives: readonly (readonly PlainNode[])[]): number {
  if (alternatives.length < 2) return 1;
  let arrays = 0;
  let strings = 0;
  let numbers = 0;
  let open = 0;
  const byStart = new Map<string, { any: number; values: Map<string, number> }>();
  for (const nodes of alternatives) {
    const { types, isListed } = possibleTypes(conversion, nodes);
    if (types === undefined || types.has("array")) arrays += 1;
    // A listed value has one reading: the texts part at the first character that differs.
    if (!isListed && (types === undefined || types.has("string"))) strings += 1;
    if (!isListed && (types === undefined || types.has("number") || types.has("integer"))) numbers += 1;
    if (types !== undefined && !types.has("object")) continue;
    const start = startOf(nodes, conversion.budget);
    if (start === undefined) {
      open += 1;
      continue;
    }
    const group = byStart.get(start.name) ?? { any: 0, values: new Map() };
    if (start.values === undefined) group.any += 1;
    for (const value of start.values ?? []) group.values.set(value, (group.values.get(value) ?? 0) + 1);
    byStart.set(start.name, group);
  }
  const alike = [...byStart.values()].map(({ any, values }) => any + Math.max(0, ...values.values()));
  return Math.max(1, arrays, strings, numbers, open + Math.max(0, ...alike));
}

function possibleTypes(
  conversion: Listing,
  nodes: readonly PlainNode[],
): { readonly types: ReadonlySet<string> | undefined; readonly isListed: boolean } {
  const types = allowedTypes(nodes, conversion.budget);
  const values = fixedValues(conversion, nodes, types);
  if (values === undefined) return { types, isListed: false };
  return { types: new Set(values.map((value) => (isList(value) ? "array" : typeof value))), isListed: true };
}

/** The name of the first property, and its listed values, if any. */
function startOf(
  nodes: readonly PlainNode[],
  budget: WorkBudget,
): { readonly name: string; readonly values?: readonly string[] } | undefined {
  const isRequired = (name: string) =>
    nodes.some(({ schema: { required } }) => {
      if (!isList(required)) return false;
      budget.pay(required.length / 4);
      return required.includes(name);
    });
  const maps = nodes.flatMap(({ schema }) => (isObject(schema.properties) ? [schema.properties] : []));
  const name = firstKey(maps);
  if (name === undefined || !isRequired(name)) return undefined;
  for (const map of maps) {
    const property = Object.hasOwn(map, name) ? map[name] : undefined;
    if (!isObject(property)) continue;
    const values = Object.hasOwn(property, "const") ? [property.const ?? null] : property.enum;
    if (!isList(values)) continue;
    const texts = values.map((value) => JSON.stringify(value));
    for (const text of texts) budget.payForText(text.length);
    return { name, values: texts };
  }
  return { name };
}

function firstKey(maps: readonly SchemaObject[]): string | undefined {
  for (const map of maps) for (const key in map) if (Object.hasOwn(map, key)) return key;
  return undefined;
}
