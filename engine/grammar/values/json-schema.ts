import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import type { JsonValue } from "../../gbnf/json-value.ts";
import { WorkSpent } from "../../work-budget.ts";
import { CostlySchema } from "../schema/invalid-schema.ts";
import { SchemaDocument, type SchemaNode } from "../schema/schema-document.ts";
import type { UndeclaredMembers } from "../schema/schema-facets.ts";
import type { KnownOverlaps } from "./one-of-overlaps.ts";
import { type Mode, SchemaConverter, type SchemaGrammar } from "./schema-converter.ts";

/** The settings of how a schema is converted. */
export type SchemaGrammarOptions = {
  /** The field that held the schema, for error messages. Default: nothing. */
  readonly at?: string;
  /** Whether to allow objects only, whatever the schema says besides. Default: false. */
  readonly objectOnly?: boolean;
  /** Which members an object may have where its schema declares some and is silent about others. Default: `declared`. */
  readonly undeclared?: UndeclaredMembers | undefined;
};

/** The number of times that reading a schema costs as much as going through its text. */
const READINGS_OF_SCHEMA = 8;
/** The share of the work that is left that an attempt may take behind which a cheaper one comes. */
const ATTEMPT_SHARE = 0.85;
/** The share that letting members come in a free order may take first. */
const FREE_SHARE = 0.4;
/** The most bytes of a schema whose members may come in a free order, which makes grammars several times larger. */
const MAX_FREE_BYTES = 24 * 1024;
/** The keywords for which schemas are turned round, or are compared with each other. */
const TURNED = ["not", "oneOf", "if", "dependentSchemas", "dependencies", "contains"];
/** The keywords whose alternatives may look alike where nothing is turned round. */
const ALIKE = ["anyOf", "oneOf"];
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
  readonly #overlaps: KnownOverlaps = new Map();
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
