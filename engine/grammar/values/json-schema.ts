import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import type { JsonValue } from "../../gbnf/json-value.ts";
import { WorkSpent } from "../../work-budget.ts";
import { CostlySchema } from "../schema/invalid-schema.ts";
import { SchemaDocument, type SchemaNode } from "../schema/schema-document.ts";
import type { UndeclaredMembers } from "../schema/schema-facets.ts";
import type { KnownOverlaps } from "./one-of-overlaps.ts";
import { type Mode, SchemaConverter, type SchemaGrammar } from "./schema-converter.ts";

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
