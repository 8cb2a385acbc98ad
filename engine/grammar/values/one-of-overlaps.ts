import { EngineError } from "../../errors.ts";
import { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { type WorkBudget, WorkSpent } from "../../work-budget.ts";
import { areToldApart, type Marks, marksOf } from "../schema/marked-objects.ts";
import { isList, type SchemaNode } from "../schema/schema-document.ts";
import type { Conversion, PlainNode } from "../schema/schema-facets.ts";

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
    if (own && others && areToldApart(own, others, conversion.budget)) return true;
    return !conversion.rules.finishing.canFinish(conversion.value([some, other]));
  }

  #marksOf(node: SchemaNode, { document, budget }: Conversion): Marks | undefined {
    if (!this.#marks.has(node.id)) this.#marks.set(node.id, marksOf(node, document, budget));
    return this.#marks.get(node.id);
  }
}
