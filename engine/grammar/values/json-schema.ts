import { EngineError } from "../../errors.ts";
import { choice, type Gbnf, literal } from "../../gbnf/gbnf.ts";
import { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { anyOfTexts, anyValue, boolean, fixedValue, type JsonValue } from "../../gbnf/json-value.ts";
import { prune } from "../../gbnf/prune.ts";
import { ReadingsGraph, readingsOf } from "../schema/ambiguity.ts";
import { fixedValues } from "../schema/fixed-values.ts";
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

const MAX_WORK = 20_000;
/** The most schemas inside each other by `$ref`, which may go on where the text of the schema is not nested. */
const MAX_DEPTH = 256;
/** The most alternatives of a `oneOf` that are compared with each other, each with each. */
const MAX_COMPARED = 32;
const ROOT = "root";
const OBJECT = { type: "object" };

/**
 * Converts a JSON Schema to grammar rules. What the rules let through satisfies the schema in all but `unenforced`; not
 * everything that satisfies it gets through: properties come in the order of the schema, undeclared ones only where
 * `additionalProperties` allows them by name, numbers have a bounded count of digits, and there is no white space but
 * one space behind `:` and `,`. `oneOf` is read as `anyOf`, and enforced where its alternatives exclude each other.
 * Unknown keywords are ignored.
 *
 * Throws `EngineError` INVALID_SCHEMA for a schema that is invalid, too large, or that no value can satisfy.
 */
export function toGrammar(schema: unknown, rules: GrammarRules, options: SchemaGrammarOptions = {}): SchemaGrammar {
  const document = new SchemaDocument(schema, options.at ?? "");
  const converter = new SchemaConverter(document, rules);
  const nodes = options.objectOnly ? [document.root, document.node(OBJECT, "")] : [document.root];
  const root = converter.value(nodes);
  if (converter.isTooAmbiguous()) return document.fail("", "has alternatives that are too much alike");
  if (prune(root, rules.all) === undefined) return document.fail("", "no value can satisfy it");
  return { root, unenforced: [...converter.unenforced] };
}

class SchemaConverter implements Conversion {
  readonly rules: GrammarRules;
  readonly unenforced = new Set<string>();
  readonly #document: SchemaDocument;
  /** The rules that were made, by the ids of the nodes that hold at once: this is what makes recursive schemas end. */
  readonly #known = new Map<string, Gbnf>();
  readonly #readings = new ReadingsGraph();
  /** The key of what is being converted. */
  #current = ROOT;
  #depth = 0;
  #work = 0;

  /** Whether the alternatives of a `oneOf` exclude each other, by the id of its node. */
  readonly #exclusive = new Map<number, boolean>();
  readonly #comparesOnly: boolean;

  /** Makes a conversion of a document. `comparesOnly` says that the grammar is thrown away. */
  constructor(document: SchemaDocument, rules: GrammarRules, comparesOnly = false) {
    this.#document = document;
    this.rules = rules;
    this.#comparesOnly = comparesOnly;
  }

  child(parent: PlainNode, schema: JsonValue, ...path: string[]): SchemaNode {
    return this.#document.node(schema, [parent.pointer, ...path].join("/"));
  }

  skip(node: PlainNode, keyword: string): void {
    this.unenforced.add(this.#document.path(`${node.pointer}/${keyword}`));
  }

  fail(node: PlainNode, keyword: string, what: string): never {
    return this.#document.fail(`${node.pointer}/${keyword}`, what);
  }

  value(nodes: readonly SchemaNode[]): Gbnf {
    const found = alternatives(nodes, this.#document, (node) => this.skip(node, "$ref"));
    this.#work += found.work;
    if (this.#work > MAX_WORK) this.#document.fail("", "is too complex");
    const readings = readingsOf(found.alternatives);
    return choice(...found.alternatives.map((plain) => this.#plain(plain, readings)));
  }

  isTooAmbiguous(): boolean {
    return this.#readings.isTooAmbiguous(ROOT);
  }

  #plain(nodes: readonly PlainNode[], readings: number): Gbnf {
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
      if (this.#depth > MAX_DEPTH) this.#document.fail("", "has too long a chain of references");
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
    const types = allowedTypes(nodes);
    const values = fixedValues(nodes, types);
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
    const comparison = new SchemaConverter(this.#document, new GrammarRules(), true);
    const isExclusive =
      options.length <= MAX_COMPARED &&
      options.every((option, i) => options.slice(i + 1).every((other) => comparison.isEmpty([option, other])));
    this.#exclusive.set(node.id, isExclusive);
    return isExclusive;
  }

  /** Returns whether no value can satisfy all of the nodes; false too where that would be too much work to find out. */
  isEmpty(nodes: readonly SchemaNode[]): boolean {
    try {
      return prune(this.value(nodes), this.rules.all) === undefined;
    } catch (error) {
      if (error instanceof EngineError) return false;
      throw error;
    }
  }

  #fixed(values: readonly JsonValue[]): Gbnf {
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
