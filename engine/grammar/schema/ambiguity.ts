import type { WorkBudget } from "../../work-budget.ts";
import { fixedValues } from "./fixed-values.ts";
import { isList, isObject, type SchemaObject } from "./schema-document.ts";
import { allowedTypes, type PlainNode } from "./schema-facets.ts";

/** The most readings of a text: llama.cpp follows all of them at once, and more than this many make each token slow. */
const MAX_READINGS = 64;

type Edge = { readonly to: string; readonly readings: number };

/**
 * Counts how many readings a text can have under a grammar. Where several alternatives begin alike, each value inside
 * them is read once for each; in a schema that refers to itself there, the readings double with every level of the
 * text.
 */
export class ReadingsGraph {
  readonly #edges = new Map<string, Edge[]>();

  /** Notes that a value inside `from` may be `to`, one of `readings` alternatives that can look alike. */
  add(from: string, to: string, readings: number): void {
    const edges = this.#edges.get(from) ?? [];
    edges.push({ to, readings });
    this.#edges.set(from, edges);
  }

  /** Returns whether a text that begins at `from` can have too many readings. */
  isTooAmbiguous(from: string): boolean {
    const components = this.#components();
    for (const [start, edges] of this.#edges) {
      for (const { to, readings } of edges) {
        if (readings > 1 && components.get(to) === components.get(start)) return true;
      }
    }
    return this.#most(from, new Map()) > MAX_READINGS;
  }

  /** Returns the largest product of readings on a way from here; circles, where nothing multiplies, count once. */
  #most(from: string, known: Map<string, number>): number {
    const before = known.get(from);
    if (before !== undefined) return before;
    known.set(from, 1);
    const all = (this.#edges.get(from) ?? []).map(({ to, readings }) => readings * this.#most(to, known));
    const most = Math.max(1, ...all);
    known.set(from, most);
    return most;
  }

  /** Returns the strongly connected components (Tarjan): nodes with the same number can reach each other. */
  #components(): ReadonlyMap<string, number> {
    const low = new Map<string, number>();
    const component = new Map<string, number>();
    const path: string[] = [];
    const visit = (node: string): number => {
      const index = low.size;
      low.set(node, index);
      path.push(node);
      let lowest = index;
      for (const { to } of this.#edges.get(node) ?? []) {
        if (!component.has(to)) lowest = Math.min(lowest, low.get(to) ?? visit(to));
      }
      low.set(node, lowest);
      if (lowest === index) {
        for (let last = path.pop(); last !== undefined; last = last === node ? undefined : path.pop()) {
          component.set(last, index);
        }
      }
      return lowest;
    };
    for (const node of this.#edges.keys()) if (!low.has(node)) visit(node);
    return component;
  }
}

/**
 * Returns how many of the alternatives can have the same text up to a value inside them, or up to their end where they
 * are strings or numbers. Throws `WorkSpent`.
 */
export function readingsOf(alternatives: readonly (readonly PlainNode[])[], budget: WorkBudget): number {
  if (alternatives.length < 2) return 1;
  let arrays = 0;
  let strings = 0;
  let numbers = 0;
  let open = 0;
  const byStart = new Map<string, { any: number; values: Map<string, number> }>();
  for (const nodes of alternatives) {
    const { types, isListed } = possibleTypes(nodes, budget);
    if (types === undefined || types.has("array")) arrays += 1;
    // Of listed values each is read once: they part at the first character in which they differ.
    if (!isListed && (types === undefined || types.has("string"))) strings += 1;
    if (!isListed && (types === undefined || types.has("number") || types.has("integer"))) numbers += 1;
    if (types !== undefined && !types.has("object")) continue;
    const start = startOf(nodes, budget);
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

/** Returns the types that a value may have, undefined for any, and whether the schema lists all values by an `enum`. */
function possibleTypes(
  nodes: readonly PlainNode[],
  budget: WorkBudget,
): { readonly types: ReadonlySet<string> | undefined; readonly isListed: boolean } {
  const types = allowedTypes(nodes, budget);
  const values = fixedValues(nodes, types, budget);
  if (values === undefined) return { types, isListed: false };
  return { types: new Set(values.map((value) => (isList(value) ? "array" : typeof value))), isListed: true };
}

/** Returns what an object always begins with: the name of its first property and, if these are fixed, its values. */
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
