import { choice, type Gbnf, literal } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { anyValue, boolean, type JsonValue } from "../../gbnf/json-value.ts";
import { type WorkBudget, WorkSpent } from "../../work-budget.ts";
import { ReadingsGraph, readingsOf } from "../schema/ambiguity.ts";
import { presenceKeywords } from "../schema/presence.ts";
import {
  allowedTypes,
  alternatives,
  type Conversion,
  fixedValues,
  type PlainNode,
  type UndeclaredMembers,
} from "../schema/schema-alternatives.ts";
import { CostlySchema, SchemaDocument, type SchemaNode } from "../schema/schema-document.ts";
import { NOT_ENFORCED, type SchemaType } from "../schema/schema-keywords.ts";
import { SchemaNegation } from "../schema/schema-negation.ts";
import { SchemaValidator } from "../validation/schema-validator.ts";
import { arrayGrammar } from "./array-grammar.ts";
import { numberGrammar } from "./number-grammar.ts";
import { objectGrammar } from "./object-grammar.ts";
import { type KnownOverlaps, OneOfOverlaps } from "./one-of-overlaps.ts";
import { fixedValuesGrammar, stringGrammar } from "./string-grammar.ts";

/** The maximum nesting of schemas through `$ref`, which may exceed the nesting of the text. */
const MAX_DEPTH = 256;
const MAX_FREE_ALTERNATIVES = 4;
const PLAIN_WORK = 16;
const ROOT = "root";
const ALTERNATIVES = ["anyOf", "oneOf", "if", "dependentSchemas", "dependencies", "allOf", "$ref", "$dynamicRef"];

export type SchemaGrammar = {
  readonly root: Gbnf;
  /** The positions of keywords that are not enforced: the field and a JSON pointer with unusual keys masked. */
  readonly unenforced: readonly string[];
};

/**
 * `exact` negates schemas, `free` also allows other member orders; `plain` does not negate; `loose` also reduces
 * alternatives that begin alike to their types.
 */
type Mode = "free" | "exact" | "plain" | "loose";

type ConverterOptions = {
  readonly undeclared: UndeclaredMembers;
  readonly mode: Mode;
  readonly overlaps: KnownOverlaps | undefined;
};

export class SchemaConverter implements Conversion {
  readonly rules: GrammarRules;
  readonly document: SchemaDocument;
  readonly negation: SchemaNegation | undefined;
  readonly undeclared: UndeclaredMembers;
  /** The rules by the ids of the nodes that apply together; recursion in schemas ends here. */
  readonly #known = new Map<string, Gbnf>();
  readonly #readings = new ReadingsGraph();
  readonly #unenforced = new Set<string>();
  readonly #named: string[] = [];
  #asked = 0;
  #current = ROOT;
  #depth = 0;
  readonly #overlaps: OneOfOverlaps | undefined;
  readonly #mode: Mode;
  readonly #validator: SchemaValidator;

  constructor(document: SchemaDocument, rules: GrammarRules, { undeclared, mode, overlaps }: ConverterOptions) {
    this.document = document;
    this.rules = rules;
    this.undeclared = undeclared;
    this.#mode = mode;
    const comparing = { undeclared, mode: "plain", overlaps: undefined } as const;
    const compare = (rulesOf: GrammarRules) => new SchemaConverter(document, rulesOf, comparing);
    this.#overlaps = overlaps && new OneOfOverlaps(overlaps, rules.budget, compare);
    this.#validator = new SchemaValidator(document);
    this.negation =
      mode === "exact" || mode === "free"
        ? new SchemaNegation(
            (schema) => document.resolve(document.node(schema, ""))?.schema,
            () => rules.budget,
          )
        : undefined;
  }

  get budget(): WorkBudget {
    return this.rules.budget;
  }

  /** Throws `EngineError` INVALID_SCHEMA if no value can satisfy the nodes, and `WorkSpent`. */
  whole(nodes: readonly SchemaNode[]): SchemaGrammar {
    const { pointer = "" } = nodes[0] ?? {};
    this.#asked += 1;
    const start = `${ROOT} ${this.#asked}`;
    this.#current = start;
    const before = this.#named.length;
    const root = this.value(nodes);
    if (this.#readings.isTooAmbiguous(start))
      return this.document.tooCostly(pointer, "has alternatives that are too much alike");
    if (!this.rules.finishing.canFinish(root)) return this.document.fail(pointer, "no value can satisfy it");
    return { root, unenforced: this.#named.slice(before) };
  }

  child(parent: PlainNode, schema: JsonValue, ...path: string[]): SchemaNode {
    this.budget.payForText(parent.pointer.length);
    return this.document.known(schema) ?? this.document.node(schema, [parent.pointer, ...path].join("/"));
  }

  isAllowed(value: JsonValue, node: PlainNode): boolean {
    return this.#validator.check(value, this.budget, node) !== "refused";
  }

  skip(node: PlainNode, keyword: string): void {
    const path = this.document.path(`${node.pointer}/${keyword}`);
    if (this.#unenforced.has(path)) return;
    this.#unenforced.add(path);
    this.#named.push(path);
  }

  tooCostly(node: PlainNode, keyword: string, what: string): never {
    return this.document.tooCostly(`${node.pointer}/${keyword}`, what);
  }

  value(nodes: readonly SchemaNode[]): Gbnf {
    const found = alternatives(nodes, this);
    const readings = readingsOf(this, found);
    const [first] = nodes;
    if (this.#mode === "loose" && readings > 1 && first !== undefined && typeof first.schema === "object")
      return this.#ofTypes({ ...first, schema: first.schema }, found);
    const objects =
      this.#mode === "free"
        ? found.filter((plain) => allowedTypes(plain, this.budget)?.has("object") ?? true).length
        : 0;
    const isFree = objects > 0 && objects <= MAX_FREE_ALTERNATIVES;
    const most = isFree ? Math.max(readings, objects) : readings;
    return choice(...found.map((plain) => this.#plain(plain, most, isFree)));
  }

  #ofTypes(node: PlainNode, found: readonly (readonly PlainNode[])[]): Gbnf {
    this.skip(node, ALTERNATIVES.find((keyword) => node.schema[keyword] !== undefined) ?? "");
    const types = found.map((plain) => this.#typesOf(plain));
    const all = new Set(types.flatMap((each) => [...(each ?? [])]));
    if (types.includes(undefined)) return anyValue(this.rules);
    if (all.has("number")) all.delete("integer");
    return choice(...[...all].map((type) => this.#ofType(type, [], false)));
  }

  #plain(nodes: readonly PlainNode[], readings: number, isFree: boolean): Gbnf {
    this.budget.pay(PLAIN_WORK + nodes.length);
    const [only] = nodes;
    const ids = nodes.length === 1 && only !== undefined ? String(only.id) : idsOf(nodes);
    const key = isFree ? `${ids} free` : ids;
    this.#readings.add(this.#current, key, readings);
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    return this.rules.fresh((self) => {
      this.#known.set(key, self);
      const around = this.#current;
      this.#current = key;
      this.#depth += 1;
      if (this.#depth > MAX_DEPTH) this.document.tooCostly("", "has too long a chain of references");
      const converted = this.#convert(nodes, isFree);
      this.#depth -= 1;
      this.#current = around;
      return converted;
    });
  }

  #convert(nodes: readonly PlainNode[], isFree: boolean): Gbnf {
    for (const node of nodes)
      for (const keyword of NOT_ENFORCED) if (node.schema[keyword] !== undefined) this.skip(node, keyword);
    const types = this.#typesOf(nodes);
    const values = fixedValues(this, nodes, types);
    if (values !== undefined) return fixedValuesGrammar(this, nodes, values);
    if (types === undefined) return anyValue(this.rules);
    const wanted = [...types].filter((type) => type !== "integer" || !types.has("number"));
    return choice(...wanted.map((type) => this.#ofType(type, nodes, isFree)));
  }

  /** Returns the types that nodes allow; undefined for any. Conditions on the presence of members imply objects. */
  #typesOf(nodes: readonly PlainNode[]): ReadonlySet<SchemaType> | undefined {
    const types = allowedTypes(nodes, this.budget);
    const asked = nodes.flatMap(({ schema }) => presenceKeywords(schema, this.budget));
    if (asked.length === 0) return types;
    if (types === undefined) return new Set(["object"]);
    return asked.every(({ allowsOthers }) => allowsOthers)
      ? types
      : new Set([...types].filter((type) => type === "object"));
  }

  overlaps(node: PlainNode): readonly (readonly number[])[] {
    return this.#overlaps?.of(node, this) ?? [];
  }

  #ofType(type: SchemaType, nodes: readonly PlainNode[], isFree: boolean): Gbnf {
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
        return objectGrammar(this, nodes, isFree);
    }
  }
}

function idsOf(nodes: readonly SchemaNode[]): string {
  return nodes
    .map(({ id }) => id)
    .sort((a, b) => a - b)
    .join();
}

export type SchemaGrammarOptions = {
  readonly at?: string;
  readonly objectOnly?: boolean;
  readonly undeclared?: UndeclaredMembers | undefined;
};

const READINGS_OF_SCHEMA = 8;
/** The share of the remaining work for an attempt that has a cheaper alternative. */
const ATTEMPT_SHARE = 0.85;
/** The share of the remaining work for the attempt with members in free order. */
const FREE_SHARE = 0.4;
/** The maximum size of a schema with members in free order, in bytes: such grammars are several times larger. */
const MAX_FREE_BYTES = 24 * 1024;
/** Keywords that need negated or compared schemas. */
const TURNED = ["not", "oneOf", "if", "dependentSchemas", "dependencies", "contains"];
const ALIKE = ["anyOf", "oneOf"];
const OBJECT = { type: "object" };

/**
 * Converts a JSON Schema to grammar rules. Properties stand in the order of the schema, others after them; numbers have
 * bounded digits; keywords that cost too much are `unenforced`. Throws `EngineError` INVALID_SCHEMA, and `CostlySchema`
 * beyond limits and the budget.
 */
export function toGrammar(schema: unknown, rules: GrammarRules, options: SchemaGrammarOptions = {}): SchemaGrammar {
  const grammars = new SchemaGrammars(new SchemaDocument(schema, options.at ?? ""), rules, options.undeclared);
  return grammars.whole(options.objectOnly);
}

export class SchemaGrammars {
  readonly #document: SchemaDocument;
  readonly #rules: GrammarRules;
  readonly #undeclared: UndeclaredMembers;
  readonly #converters = new Map<Mode, SchemaConverter>();
  readonly #tooCostly = new Set<Mode>();
  readonly #overlaps: KnownOverlaps = new Map();
  readonly #isFree: boolean;

  /** Charges for reading the document. Throws `CostlySchema`. */
  constructor(document: SchemaDocument, rules: GrammarRules, undeclared: UndeclaredMembers = "declared") {
    this.#document = document;
    this.#rules = rules;
    this.#undeclared = undeclared;
    this.#isFree = undeclared === "any" && document.bytes <= MAX_FREE_BYTES;
    if (!rules.budget.spendOnText(READINGS_OF_SCHEMA * document.bytes)) this.#tooCostlyToMake();
  }

  whole(objectOnly = false): SchemaGrammar {
    const { root } = this.#document;
    return this.#ofAll(objectOnly ? [root, this.#document.node(OBJECT, "")] : [root]);
  }

  /** Keywords reported for an earlier schema are not listed again. Throws as `toGrammar` does. */
  inside(schema: JsonValue, pointer: string): SchemaGrammar {
    return this.#ofAll([this.#document.node(schema, pointer)]);
  }

  #ofAll(nodes: readonly SchemaNode[]): SchemaGrammar {
    try {
      const modes = this.#modes();
      for (const mode of modes.slice(0, -1)) {
        const found = this.#attempt(mode, nodes);
        if (found !== undefined) return found;
      }
      return this.#converter(modes.at(-1) ?? "exact").whole(nodes);
    } catch (error) {
      if (error instanceof WorkSpent) return this.#tooCostlyToMake();
      throw error;
    }
  }

  #modes(): readonly Mode[] {
    const modes: Mode[] = this.#isFree ? ["free", "exact"] : ["exact"];
    if (this.#document.hasAny(TURNED)) modes.push("plain");
    if (this.#document.hasAny(ALIKE)) modes.push("loose");
    return modes;
  }

  #tooCostlyToMake(): never {
    return this.#document.tooCostly("", "is too costly to be turned into a grammar");
  }

  /** Returns the grammar of nodes in one mode; undefined if the mode is, or was before, too costly. */
  #attempt(mode: Mode, nodes: readonly SchemaNode[]): SchemaGrammar | undefined {
    if (this.#tooCostly.has(mode)) return undefined;
    try {
      const share = mode === "free" ? FREE_SHARE : ATTEMPT_SHARE;
      return this.#rules.attempt(share * this.#rules.budget.left, () => this.#converter(mode).whole(nodes));
    } catch (error) {
      if (!(error instanceof WorkSpent || error instanceof CostlySchema)) throw error;
      // Cached rules may refer to rules that the failed attempt removed.
      this.#tooCostly.add(mode);
      return undefined;
    }
  }

  #converter(mode: Mode): SchemaConverter {
    const known = this.#converters.get(mode);
    if (known !== undefined) return known;
    const made = new SchemaConverter(this.#document, this.#rules, {
      undeclared: this.#undeclared,
      mode,
      overlaps: this.#overlaps,
    });
    this.#converters.set(mode, made);
    return made;
  }
}
