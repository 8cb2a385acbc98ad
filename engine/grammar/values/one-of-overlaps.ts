import { EngineError } from "../../errors.ts";
import { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { type WorkBudget, WorkSpent } from "../../work-budget.ts";
import { type Conversion, listedValues, type PlainNode } from "../schema/schema-alternatives.ts";
import { isList, isObject, type SchemaDocument, type SchemaNode } from "../schema/schema-document.ts";

const MAX_REFERENCES = 8;

type Mark = { readonly values: ReadonlyMap<string, unknown>; readonly isRequired: boolean };

type Marks = ReadonlyMap<string, Mark>;

/** Properties with listed values of a schema of objects, such as a `kind` with a `const`; undefined for others. */
function marksOf(node: SchemaNode, document: SchemaDocument, budget: WorkBudget): Marks | undefined {
  const { schema } = referred(node, document);
  if (!isObject(schema) || schema.type !== "object" || schema.nullable === true || !isObject(schema.properties))
    return undefined;
  const names = new Set(isList(schema.required) ? schema.required : []);
  const properties = Object.entries(schema.properties);
  budget.pay(names.size + properties.length);
  const marks = new Map<string, Mark>();
  for (const [name, property] of properties) {
    const values = isObject(property) ? listedValues(property, budget) : undefined;
    if (values !== undefined) marks.set(name, { values, isRequired: names.has(name) });
  }
  return marks;
}

/** Returns whether no object can match both. Throws `WorkSpent`. */
function areDisjoint(some: Marks, others: Marks, budget: WorkBudget): boolean {
  for (const [name, mark] of some) {
    const other = others.get(name);
    budget.pay(1);
    if (other === undefined || !(mark.isRequired || other.isRequired)) continue;
    budget.pay(mark.values.size);
    if (![...mark.values.keys()].some((text) => other.values.has(text))) return true;
  }
  return false;
}

/** Follows a `$ref` without sibling keywords: with siblings the target is only a part of the schema. */
function referred(node: SchemaNode, document: SchemaDocument): SchemaNode {
  let at = node;
  for (let i = 0; i < MAX_REFERENCES; i += 1) {
    const { schema } = at;
    if (!isObject(schema) || typeof schema.$ref !== "string" || Object.keys(schema).length > 1) return at;
    at = document.resolve(at) ?? at;
  }
  return at;
}

const MAX_COMPARED = 32;
/** The work limit for comparisons in a schema; pairs beyond it count as overlapping. */
const COMPARING_WORK = 38_000;
const PAIRS_PER_WORK = 8;

/** For each alternative of a `oneOf` its overlapping alternatives, by the id of the node. */
export type KnownOverlaps = Map<number, readonly (readonly number[])[]>;

export class OneOfOverlaps {
  readonly #known: KnownOverlaps;
  /** Overlaps without exact comparison for lack of work; another conversion may compare them. */
  readonly #rough: KnownOverlaps = new Map();
  readonly #budget: WorkBudget;
  readonly #compare: (rules: GrammarRules) => Conversion;
  readonly #marks = new Map<number, Marks | undefined>();
  #comparison: Conversion | undefined;

  constructor(known: KnownOverlaps, budget: WorkBudget, compare: (rules: GrammarRules) => Conversion) {
    this.#known = known;
    this.#budget = budget.part(COMPARING_WORK);
    this.#compare = compare;
  }

  of(node: PlainNode, conversion: Pick<Conversion, "budget" | "child">): readonly (readonly number[])[] {
    const known = this.#known.get(node.id) ?? this.#rough.get(node.id);
    if (known !== undefined) return known;
    const list = isList(node.schema.oneOf) ? node.schema.oneOf : [];
    conversion.budget.pay((list.length * list.length) / PAIRS_PER_WORK);
    const options = list.map((schema, i) => conversion.child(node, schema, "oneOf", String(i)));
    const found = options.map((): number[] => []);
    for (let some = 0; some < options.length; some += 1) {
      for (let other = some + 1; other < options.length; other += 1) {
        if (options.length <= MAX_COMPARED && this.#areApart(options[some], options[other])) continue;
        found[some]?.push(other);
        found[other]?.push(some);
      }
    }
    (this.#budget.left > 0 ? this.#known : this.#rough).set(node.id, found);
    return found;
  }

  /** Returns whether no value can satisfy both nodes; false if that is not certain. */
  #areApart(some: SchemaNode | undefined, other: SchemaNode | undefined): boolean {
    if (some === undefined || other === undefined || this.#budget.left === 0) return false;
    this.#comparison ??= this.#compare(new GrammarRules(this.#budget));
    try {
      return this.#excludes(this.#comparison, some, other);
    } catch (error) {
      // An aborted comparison may leave incomplete rules.
      this.#comparison = undefined;
      if (error instanceof EngineError || error instanceof WorkSpent) return false;
      throw error;
    }
  }

  #excludes(conversion: Conversion, some: SchemaNode, other: SchemaNode): boolean {
    const [own, others] = [this.#marksOf(some, conversion), this.#marksOf(other, conversion)];
    if (own && others && areDisjoint(own, others, conversion.budget)) return true;
    return !conversion.rules.finishing.canFinish(conversion.value([some, other]));
  }

  #marksOf(node: SchemaNode, { document, budget }: Conversion): Marks | undefined {
    if (!this.#marks.has(node.id)) this.#marks.set(node.id, marksOf(node, document, budget));
    return this.#marks.get(node.id);
  }
}
