import { EngineError } from "../../errors.ts";
import { choice, type Gbnf, literal } from "../../gbnf/gbnf.ts";
import { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { anyOfTexts, anyValue, boolean, fixedValue, type JsonValue } from "../../gbnf/json-value.ts";
import { FinishingRules } from "../../gbnf/prune.ts";
import { WorkBudget, WorkSpent } from "../../work-budget.ts";
import { ReadingsGraph, readingsOf } from "../schema/ambiguity.ts";
import { fixedValues } from "../schema/fixed-values.ts";
import { areToldApart, marksOf } from "../schema/marked-objects.ts";
import { alternatives } from "../schema/schema-alternatives.ts";
import { isList, SchemaDocument, type SchemaNode } from "../schema/schema-document.ts";
import { allowedTypes, type Conversion, type PlainNode } from "../schema/schema-facets.ts";
import { NOT_ENFORCED, type SchemaType } from "../schema/schema-keywords.ts";
import { arrayGrammar } from "./array-grammar.ts";
import { numberGrammar } from "./number-grammar.ts";
import { objectGrammar } from "./object-grammar.ts";
import { stringGrammar } from "./string-grammar.ts";

/** The grammar of a schema. */
export type SchemaGrammar = {
  /** The grammar of a value; its rules are in the `GrammarRules` that were given. */
  readonly root: Gbnf;
  /**
   * The places of keywords that the grammar does not enforce: the field and a JSON pointer, keys in it shown where
   * harmless.
   */
  readonly unenforced: readonly string[];
};

/** The settings of how a schema is converted. */
export type SchemaGrammarOptions = {
  /** The field that held the schema, for error messages. Default: nothing. */
  readonly at?: string;
  /** Whether to allow objects only, whatever the schema says besides. Default: false. */
  readonly objectOnly?: boolean;
};

/** The most schemas inside each other by `$ref`, which may go on where the text of the schema is not nested. */
const MAX_DEPTH = 256;
/** The most alternatives of a `oneOf` that are compared with each other, each with each. */
const MAX_COMPARED = 32;
/** Work that comparing the alternatives of all `oneOf` of a schema may cost; what it does not reach may overlap. */
const COMPARING_WORK = 60_000;
/** The number of times that reading a schema costs as much as going through its text. */
const READINGS_OF_SCHEMA = 4;
/** Work that converting what holds together costs beside what each of its keywords does. */
const PLAIN_WORK = 16;
const ROOT = "root";
const OBJECT = { type: "object" };

/**
 * Converts a JSON Schema to grammar rules. What the rules let through satisfies the schema in all but `unenforced`; not
 * everything that satisfies it gets through: properties come in the order of the schema, undeclared ones only where
 * `additionalProperties` allows them by name, numbers have a bounded count of digits, and there is no white space but
 * one space behind `:` and `,`. `oneOf` is read as `anyOf`, and enforced where its alternatives exclude each other.
 * Unknown keywords are ignored.
 *
 * Throws `EngineError` INVALID_SCHEMA for a schema that is invalid or that no value can satisfy, and as `CostlySchema`
 * for one that is too large or for which the budget of the rules has not enough work left.
 */
export function toGrammar(schema: unknown, rules: GrammarRules, options: SchemaGrammarOptions = {}): SchemaGrammar {
  return new SchemaGrammars(new SchemaDocument(schema, options.at ?? ""), rules).whole(options.objectOnly);
}

/** The grammars of a schema and of the schemas inside it, which share what they refer to. */
export class SchemaGrammars {
  readonly #document: SchemaDocument;
  readonly #rules: GrammarRules;
  readonly #converter: SchemaConverter;
  readonly #finishing: FinishingRules;

  /** Makes the grammars of a document, with rules that are added to `rules`. */
  constructor(document: SchemaDocument, rules: GrammarRules) {
    this.#document = document;
    this.#rules = rules;
    this.#converter = new SchemaConverter(document, rules);
    this.#finishing = new FinishingRules(rules.all);
  }

  /**
   * Returns the grammar of the whole schema, for objects only where told so. Throws `EngineError` as `toGrammar` does.
   */
  whole(objectOnly = false): SchemaGrammar {
    const { root } = this.#document;
    return this.#ofAll(objectOnly ? [root, this.#document.node(OBJECT, "")] : [root], () => {
      this.#rules.budget.payForText(READINGS_OF_SCHEMA * this.#document.bytes);
    });
  }

  /**
   * Returns the grammar of a schema at `pointer` inside the whole, whose own grammar has been made before. Throws
   * `EngineError` as `toGrammar` does.
   */
  inside(schema: JsonValue, pointer: string): SchemaGrammar {
    return this.#ofAll([this.#document.node(schema, pointer)]);
  }

  #ofAll(nodes: readonly SchemaNode[], payFirst = () => {}): SchemaGrammar {
    const document = this.#document;
    const { pointer = "" } = nodes[0] ?? {};
    try {
      payFirst();
      const root = this.#converter.value(nodes);
      if (this.#converter.isTooAmbiguous()) return document.tooCostly("", "has alternatives that are too much alike");
      if (!this.#finishing.canFinish(root)) return document.fail(pointer, "no value can satisfy it");
      return { root, unenforced: [...this.#converter.unenforced] };
    } catch (error) {
      if (error instanceof WorkSpent) return document.tooCostly("", "is too costly to be turned into a grammar");
      throw error;
    }
  }
}

class SchemaConverter implements Conversion {
  readonly rules: GrammarRules;
  readonly unenforced = new Set<string>();
  readonly #document: SchemaDocument;
  /** The rules that were made, by the ids of the nodes that hold at once: this is what makes recursive schemas end. */
  readonly #known = new Map<string, Gbnf>();
  readonly #readings = new ReadingsGraph();
  readonly #budget: WorkBudget;
  /** The key of what is being converted. */
  #current = ROOT;
  #depth = 0;

  /** The conversion that compares the alternatives of every `oneOf`; undefined before the first. */
  #comparison: SchemaConverter | undefined;
  readonly #comparing: WorkBudget;
  /** Whether the alternatives of a `oneOf` exclude each other, by the id of its node. */
  readonly #exclusive = new Map<number, boolean>();
  readonly #comparesOnly: boolean;
  readonly #finishing: FinishingRules;

  /** Makes a conversion of a document. `comparesOnly` says that the grammar is thrown away. */
  constructor(document: SchemaDocument, rules: GrammarRules, comparesOnly = false) {
    this.#document = document;
    this.rules = rules;
    this.#budget = rules.budget;
    this.#comparing = new WorkBudget(COMPARING_WORK, rules.budget);
    this.#comparesOnly = comparesOnly;
    this.#finishing = new FinishingRules(rules.all);
  }

  child(parent: PlainNode, schema: JsonValue, ...path: string[]): SchemaNode {
    const pointer = [parent.pointer, ...path].join("/");
    this.#budget.payForText(pointer.length);
    return this.#document.node(schema, pointer);
  }

  skip(node: PlainNode, keyword: string): void {
    this.unenforced.add(this.#document.path(`${node.pointer}/${keyword}`));
  }

  tooCostly(node: PlainNode, keyword: string, what: string): never {
    return this.#document.tooCostly(`${node.pointer}/${keyword}`, what);
  }

  value(nodes: readonly SchemaNode[]): Gbnf {
    const found = alternatives(nodes, this.#document, (node) => this.skip(node, "$ref"), this.#budget);
    const readings = readingsOf(found, this.#budget);
    return choice(...found.map((plain) => this.#plain(plain, readings)));
  }

  isTooAmbiguous(): boolean {
    return this.#readings.isTooAmbiguous(ROOT);
  }

  #plain(nodes: readonly PlainNode[], readings: number): Gbnf {
    this.#budget.pay(PLAIN_WORK + nodes.length);
    const key = nodes
      .map(({ id }) => id)
      .sort((a, b) => a - b)
      .join();
    this.#readings.add(this.#current, key, readings);
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    return this.rules.fresh((self) => {
      this.#known.set(key, self);
      const around = this.#current;
      this.#current = key;
      this.#depth += 1;
      if (this.#depth > MAX_DEPTH) this.#document.tooCostly("", "has too long a chain of references");
      const converted = this.#convert(nodes);
      this.#depth -= 1;
      this.#current = around;
      return converted;
    });
  }

  #convert(nodes: readonly PlainNode[]): Gbnf {
    for (const node of nodes) {
      for (const keyword of NOT_ENFORCED) if (node.schema[keyword] !== undefined) this.skip(node, keyword);
      if (isList(node.schema.oneOf) && !this.#isExclusive(node)) this.skip(node, "oneOf");
    }
    const types = allowedTypes(nodes, this.#budget);
    const values = fixedValues(nodes, types, this.#budget);
    if (values !== undefined) return this.#fixed(values);
    if (types === undefined) return anyValue(this.rules);
    const wanted = [...types].filter((type) => type !== "integer" || !types.has("number"));
    return choice(...wanted.map((type) => this.#ofType(type, nodes)));
  }

  /**
   * Returns whether no value can satisfy two of the alternatives of `oneOf`; false too where that is not easily seen.
   */
  #isExclusive(node: PlainNode): boolean {
    if (this.#comparesOnly) return true;
    const known = this.#exclusive.get(node.id);
    if (known !== undefined) return known;
    const list = isList(node.schema.oneOf) ? node.schema.oneOf : [];
    const options = list.map((schema, i) => this.child(node, schema, "oneOf", String(i)));
    this.#comparison ??= new SchemaConverter(this.#document, new GrammarRules(this.#comparing), true);
    const isExclusive = options.length <= MAX_COMPARED && this.#comparison.excludesEachOther(options);
    // What was given up in the middle may have left rules that are not whole.
    if (!isExclusive) this.#comparison = undefined;
    this.#exclusive.set(node.id, isExclusive);
    return isExclusive;
  }

  /** Returns whether no value can satisfy two of the nodes; false too where that would be too much work to find out. */
  excludesEachOther(nodes: readonly SchemaNode[]): boolean {
    try {
      const marks = nodes.map((node) => marksOf(node, this.#document, this.#budget));
      return nodes.every((node, i) => {
        const own = marks[i];
        return nodes.every((other, j) => {
          if (j <= i) return true;
          const others = marks[j];
          return (own && others && areToldApart(own, others, this.#budget)) || this.#isEmpty([node, other]);
        });
      });
    } catch (error) {
      if (error instanceof EngineError || error instanceof WorkSpent) return false;
      throw error;
    }
  }

  /** Returns whether no value can satisfy all of the nodes. */
  #isEmpty(nodes: readonly SchemaNode[]): boolean {
    return !this.#finishing.canFinish(this.value(nodes));
  }

  #fixed(values: readonly JsonValue[]): Gbnf {
    for (const value of values) this.#budget.payForText(16 * JSON.stringify(value).length);
    const isScalar = (value: JsonValue) => typeof value !== "object" || value === null;
    const texts = values.filter(isScalar).map((value) => JSON.stringify(value));
    const others = values.filter((value) => !isScalar(value)).map((value) => fixedValue(this.rules, value));
    return choice(anyOfTexts(texts), ...others);
  }

  #ofType(type: SchemaType, nodes: readonly PlainNode[]): Gbnf {
    switch (type) {
      case "null":
        return literal("null");
      case "boolean":
        return boolean();
      case "string":
        return stringGrammar(this, nodes);
      case "integer":
      case "number":
        return numberGrammar(this, nodes, type === "integer");
      case "array":
        return arrayGrammar(this, nodes);
      case "object":
        return objectGrammar(this, nodes);
    }
  }
}
