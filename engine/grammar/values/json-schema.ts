import { EngineError } from "../../errors.ts";
import { choice, type Gbnf, literal } from "../../gbnf/gbnf.ts";
import { GrammarRules } from "../../gbnf/grammar-rules.ts";
import {
  anyArray,
  anyInteger,
  anyNumber,
  anyObject,
  anyOfTexts,
  anyString,
  anyValue,
  boolean,
  fixedValue,
  type JsonValue,
} from "../../gbnf/json-value.ts";
import { WorkBudget, WorkSpent } from "../../work-budget.ts";
import { patternExpression } from "../expressions/string-pattern.ts";
import { ReadingsGraph, readingsOf } from "../schema/ambiguity.ts";
import { fixedValues } from "../schema/fixed-values.ts";
import { CostlySchema } from "../schema/invalid-schema.ts";
import { areToldApart, marksOf } from "../schema/marked-objects.ts";
import { presenceKeywords } from "../schema/presence.ts";
import { alternatives, type Reading } from "../schema/schema-alternatives.ts";
import { isList, SchemaDocument, type SchemaNode } from "../schema/schema-document.ts";
import { allowedTypes, type Conversion, type PlainNode, type UndeclaredMembers } from "../schema/schema-facets.ts";
import { keyword, NOT_ENFORCED, type SchemaType } from "../schema/schema-keywords.ts";
import { SchemaNegation } from "../schema/schema-negation.ts";
import { SchemaValidator } from "../validation/schema-validator.ts";
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
  /** Which members an object may have where its schema declares some and is silent about others. Default: `declared`. */
  readonly undeclared?: UndeclaredMembers | undefined;
};

/** The most schemas inside each other by `$ref`, which may go on where the text of the schema is not nested. */
const MAX_DEPTH = 256;
/** The most alternatives of a `oneOf` that are compared with each other, each with each. */
const MAX_COMPARED = 32;
/** Work that comparing the alternatives of all `oneOf` of a schema may cost; what it does not reach may overlap. */
const COMPARING_WORK = 60_000;
/** The number of times that reading a schema costs as much as going through its text. */
const READINGS_OF_SCHEMA = 4;
/** The share of the work that is left that an attempt may take behind which a cheaper one comes. */
const ATTEMPT_SHARE = 0.6;
/** The share that letting members come in a free order may take first. */
const FREE_SHARE = 0.4;
/** The most bytes of a schema whose members may come in a free order, which makes grammars several times larger. */
const MAX_FREE_BYTES = 24 * 1024;
/** The most alternatives that may be objects whose members come in a free order. */
const MAX_FREE_ALTERNATIVES = 4;
/** The number of pairs of alternatives that cost a step to go through, beside what comparing two of them costs. */
const PAIRS_PER_WORK = 8;
/** Work that converting what holds together costs beside what each of its keywords does. */
const PLAIN_WORK = 16;
const ROOT = "root";
/** The number of characters gone through that a character of a value costs which is written out as it is. */
const SCALAR_COST = 16;
/** The same of a list or an object, of which each part and what stands between them is written for itself. */
const PARTS_COST = 48;
/** The keywords that give alternatives. */
const ALTERNATIVES = ["anyOf", "oneOf", "if", "dependentSchemas", "dependencies", "allOf", "$ref", "$dynamicRef"];
/** The keywords for which schemas are turned round, or are compared with each other. */
const TURNED = ["not", "oneOf", "if", "dependentSchemas", "dependencies", "contains"];
/** The keywords whose alternatives may look alike where nothing is turned round. */
const ALIKE = ["anyOf", "oneOf"];
/** The keywords that whoever lists the values of a schema has gone by. */
const OF_LISTED: ReadonlySet<string> = new Set(["enum", "const", "type"]);
const OBJECT = { type: "object" };

/**
 * Converts a JSON Schema to grammar rules. What the rules let through satisfies the schema in all but `unenforced`; not
 * everything that satisfies it gets through: properties come in the order of the schema and others behind them, numbers
 * have a bounded count of digits, and there is no white space but one space behind `:` and `,`. Unknown keywords are
 * ignored. Where turning schemas round (`not`, `if`, `oneOf` whose alternatives overlap) would cost too much these
 * keywords are not enforced.
 *
 * Throws `EngineError` INVALID_SCHEMA for a schema that is invalid or that no value can satisfy, and as `CostlySchema`
 * for one that is too large or for which the budget of the rules has not enough work left.
 */
export function toGrammar(schema: unknown, rules: GrammarRules, options: SchemaGrammarOptions = {}): SchemaGrammar {
  const grammars = new SchemaGrammars(new SchemaDocument(schema, options.at ?? ""), rules, options.undeclared);
  return grammars.whole(options.objectOnly);
}

/** The grammars of a schema and of the schemas inside it, which share what they refer to. */
export class SchemaGrammars {
  readonly #document: SchemaDocument;
  readonly #rules: GrammarRules;
  readonly #undeclared: UndeclaredMembers;
  readonly #converters = new Map<Mode, SchemaConverter>();
  readonly #tooCostly = new Set<Mode>();
  readonly #overlaps: Overlaps = new Map();
  readonly #isFree: boolean;

  /**
   * Makes the grammars of a document, with rules that are added to `rules`, and pays for reading it. `undeclared` says
   * which members an object may have where its schema is silent: the declared ones by default. Throws `CostlySchema`.
   */
  constructor(document: SchemaDocument, rules: GrammarRules, undeclared: UndeclaredMembers = "declared") {
    this.#document = document;
    this.#rules = rules;
    this.#undeclared = undeclared;
    this.#isFree = undeclared === "any" && document.bytes <= MAX_FREE_BYTES;
    if (!rules.budget.spendOnText(READINGS_OF_SCHEMA * document.bytes)) this.#tooCostlyToMake();
  }

  /**
   * Returns the grammar of the whole schema, for objects only where told so. Throws `EngineError` as `toGrammar` does.
   */
  whole(objectOnly = false): SchemaGrammar {
    const { root } = this.#document;
    return this.#ofAll(objectOnly ? [root, this.#document.node(OBJECT, "")] : [root]);
  }

  /**
   * Returns the grammar of a schema at `pointer` inside the whole. What it does not enforce is named where it was not for
   * another schema before. Throws `EngineError` as `toGrammar` does.
   */
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

  /** Returns the ways of converting, the best first: one that would do the same again as the one before it is left out. */
  #modes(): readonly Mode[] {
    const modes: Mode[] = this.#isFree ? ["free", "exact"] : ["exact"];
    if (this.#document.hasAny(TURNED)) modes.push("plain");
    if (this.#document.hasAny(ALIKE)) modes.push("loose");
    return modes;
  }

  #tooCostlyToMake(): never {
    return this.#document.tooCostly("", "is too costly to be turned into a grammar");
  }

  /** Returns the grammar of nodes in one way of converting; undefined where that is too costly, now or before. */
  #attempt(mode: Mode, nodes: readonly SchemaNode[]): SchemaGrammar | undefined {
    if (this.#tooCostly.has(mode)) return undefined;
    try {
      const share = mode === "free" ? FREE_SHARE : ATTEMPT_SHARE;
      return this.#rules.attempt(share * this.#rules.budget.left, () => this.#converter(mode).whole(nodes));
    } catch (error) {
      if (!(error instanceof WorkSpent || error instanceof CostlySchema)) throw error;
      // What was made before may refer to what is gone now.
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

/**
 * How a conversion is done: `free` turns schemas round and lets members come in other orders, `exact` turns schemas
 * round, `plain` notes what it would need that for, `loose` also notes alternatives that look alike and holds a value
 * to their types only.
 */
type Mode = "free" | "exact" | "plain" | "loose";

/** For each alternative of a `oneOf` those with which it overlaps, by the id of the node that has it. */
type Overlaps = Map<number, readonly (readonly number[])[]>;

/** The settings of a conversion; what one that `compares` makes is thrown away. */
type ConverterOptions = {
  readonly undeclared: UndeclaredMembers;
  readonly mode: Mode | "compares";
  /** The overlaps that are known, which are the same however a schema is converted. */
  readonly overlaps: Overlaps;
};

class SchemaConverter implements Conversion, Reading {
  readonly rules: GrammarRules;
  readonly document: SchemaDocument;
  readonly negation: SchemaNegation | undefined;
  readonly undeclared: UndeclaredMembers;
  /** The rules that were made, by the ids of the nodes that hold at once: this is what makes recursive schemas end. */
  readonly #known = new Map<string, Gbnf>();
  readonly #readings = new ReadingsGraph();
  /** The keywords that are not enforced, and the same in the order in which they were come to. */
  readonly #unenforced = new Set<string>();
  readonly #named: string[] = [];
  /** The number of grammars that were asked for, each of which is a beginning of its own for readings. */
  #asked = 0;
  /** The key of what is being converted. */
  #current = ROOT;
  #depth = 0;

  /** The conversion that compares the alternatives of every `oneOf`; undefined before the first. */
  #comparison: SchemaConverter | undefined;
  readonly #comparing: WorkBudget;
  readonly #overlaps: Overlaps;
  /** The overlaps that this conversion had not the work to look at closely: another may. */
  readonly #roughOverlaps: Overlaps = new Map();
  readonly #mode: ConverterOptions["mode"];
  readonly #validator: SchemaValidator;

  /** Makes a conversion of a document. */
  constructor(document: SchemaDocument, rules: GrammarRules, { undeclared, mode, overlaps }: ConverterOptions) {
    this.document = document;
    this.rules = rules;
    this.undeclared = undeclared;
    this.#mode = mode;
    this.#overlaps = overlaps;
    this.#comparing = new WorkBudget(COMPARING_WORK, rules.budget);
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

  /**
   * Returns the grammar of nodes, with what it does not enforce and was not named before. Throws `EngineError`
   * INVALID_SCHEMA where no value can satisfy them, and `WorkSpent`.
   */
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
    const readings = readingsOf(found, this.budget);
    const [first] = nodes;
    if (this.#mode === "loose" && readings > 1 && first !== undefined && typeof first.schema === "object")
      return this.#ofTypes({ ...first, schema: first.schema }, found);
    const objects = this.#mode === "free" ? this.#countObjects(found) : 0;
    const isFree = objects > 0 && objects <= MAX_FREE_ALTERNATIVES;
    const most = isFree ? Math.max(readings, objects) : readings;
    return choice(...found.map((plain) => this.#plain(plain, most, isFree)));
  }

  /** Returns what any of the alternatives may be by its types, and notes that nothing else is held. */
  #ofTypes(node: PlainNode, found: readonly (readonly PlainNode[])[]): Gbnf {
    this.skip(node, ALTERNATIVES.find((keyword) => node.schema[keyword] !== undefined) ?? "");
    const types = found.map((plain) => this.#typesOf(plain));
    const all = new Set(types.flatMap((each) => [...(each ?? [])]));
    if (types.includes(undefined)) return anyValue(this.rules);
    if (all.has("number")) all.delete("integer");
    return choice(...[...all].map((type) => anyOfType(this.rules, type)));
  }

  /** Returns how many of the alternatives may be objects: in a free order nothing tells these apart. */
  #countObjects(found: readonly (readonly PlainNode[])[]): number {
    return found.filter((plain) => allowedTypes(plain, this.budget)?.has("object") ?? true).length;
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
    const values = fixedValues(nodes, types, this.budget);
    if (values !== undefined) return this.#fixed(values, nodes);
    if (types === undefined) return anyValue(this.rules);
    const wanted = [...types].filter((type) => type !== "integer" || !types.has("number"));
    return choice(...wanted.map((type) => this.#ofType(type, nodes, isFree)));
  }

  /** Returns the types that nodes allow; undefined for any. What asks for the presence of members speaks of objects. */
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
    if (this.#mode === "compares") return [];
    const known = this.#overlaps.get(node.id) ?? this.#roughOverlaps.get(node.id);
    if (known !== undefined) return known;
    const list = isList(node.schema.oneOf) ? node.schema.oneOf : [];
    this.budget.pay((list.length * list.length) / PAIRS_PER_WORK);
    const options = list.map((schema, i) => this.child(node, schema, "oneOf", String(i)));
    const found = options.map((): number[] => []);
    for (let some = 0; some < options.length; some += 1) {
      for (let other = some + 1; other < options.length; other += 1) {
        if (options.length <= MAX_COMPARED && this.#exclude(options[some], options[other])) continue;
        found[some]?.push(other);
        found[other]?.push(some);
      }
    }
    (this.#comparing.left > 0 ? this.#overlaps : this.#roughOverlaps).set(node.id, found);
    return found;
  }

  /** Returns whether no value can satisfy both nodes; false too where that is not easily seen. */
  #exclude(some: SchemaNode | undefined, other: SchemaNode | undefined): boolean {
    if (some === undefined || other === undefined || this.#comparing.left === 0) return false;
    const options = { undeclared: this.undeclared, mode: "compares", overlaps: new Map() } as const;
    this.#comparison ??= new SchemaConverter(this.document, new GrammarRules(this.#comparing), options);
    try {
      return this.#comparison.excludes(some, other);
    } catch (error) {
      // What was given up in the middle may have left rules that are not whole.
      this.#comparison = undefined;
      if (error instanceof EngineError || error instanceof WorkSpent) return false;
      throw error;
    }
  }

  /** Returns whether no value can satisfy both nodes. Throws `EngineError` and `WorkSpent`. */
  excludes(some: SchemaNode, other: SchemaNode): boolean {
    const [own, others] = [marksOf(some, this.document, this.budget), marksOf(other, this.document, this.budget)];
    return (own && others && areToldApart(own, others, this.budget)) || this.#isEmpty([some, other]);
  }

  /** Returns whether no value can satisfy all of the nodes. */
  #isEmpty(nodes: readonly SchemaNode[]): boolean {
    return !this.rules.finishing.canFinish(this.value(nodes));
  }

  #fixed(listed: readonly JsonValue[], nodes: readonly PlainNode[]): Gbnf {
    for (const node of nodes)
      if (typeof node.schema.pattern === "string" && patternExpression(node.schema.pattern) === undefined)
        this.skip(node, "pattern");
    const asking = nodes.filter(asksMoreOfValues);
    const values = listed.filter((value) =>
      asking.every((node) => this.#validator.check(value, this.budget, node) !== "refused"),
    );
    const texts: string[] = [];
    const others: JsonValue[] = [];
    for (const value of values) {
      const text = JSON.stringify(value);
      const isScalar = typeof value !== "object" || value === null;
      this.budget.payForText((isScalar ? SCALAR_COST : PARTS_COST) * text.length);
      if (isScalar) texts.push(text);
      else others.push(value);
    }
    return choice(anyOfTexts(texts), ...others.map((value) => fixedValue(this.rules, value)));
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

/** Returns the ids of nodes in one order, whatever theirs is. */
function idsOf(nodes: readonly SchemaNode[]): string {
  return nodes
    .map(({ id }) => id)
    .sort((a, b) => a - b)
    .join();
}

/** Returns whether a node asks more of a value than that it is one of those it lists, of its type. */
function asksMoreOfValues({ schema }: PlainNode): boolean {
  return Object.keys(schema).some((name) => !OF_LISTED.has(name) && keyword(name) !== undefined);
}

/** Matches any value of a type. */
function anyOfType(rules: GrammarRules, type: SchemaType): Gbnf {
  switch (type) {
    case "null":
      return literal("null");
    case "boolean":
      return boolean();
    case "string":
      return anyString(rules);
    case "integer":
      return anyInteger(rules);
    case "number":
      return anyNumber(rules);
    case "array":
      return anyArray(rules);
    case "object":
      return anyObject(rules);
  }
}
