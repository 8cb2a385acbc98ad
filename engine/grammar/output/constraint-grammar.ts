import { type Gbnf, grammarText } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { prune } from "../../gbnf/prune.ts";
import { invalidSchema } from "../schema/invalid-schema.ts";
import { MAX_SCHEMA_BYTES } from "../schema/schema-document.ts";

/** The most bytes of a grammar: more costs too much to parse and to keep. */
const MAX_GRAMMAR_BYTES = 256 * 1024;

/** Parses the text of a schema. Throws `EngineError` INVALID_SCHEMA where it is too long or no JSON. */
export function parseSchema(text: string, at: string): unknown {
  if (Buffer.byteLength(text) > MAX_SCHEMA_BYTES) throw invalidSchema(`${at}#`, "is too long");
  try {
    return JSON.parse(text);
  } catch {
    throw invalidSchema(`${at}#`, "is not valid JSON");
  }
}

/** Throws `EngineError` INVALID_SCHEMA for the first of the keywords, as the caller asked for all of the schema. */
export function refuseUnenforced(unenforced: readonly string[]): void {
  const [first] = unenforced;
  if (first !== undefined) throw invalidSchema(first, "this keyword cannot be enforced, which `strict` asks for");
}

/**
 * Writes the grammar as text, with the rule `root` and all the rules that it refers to. Throws `EngineError`
 * INVALID_SCHEMA where the text is longer than 256 KiB or nothing can match.
 */
export function finishGrammar(root: Gbnf, rules: GrammarRules, at: string): string {
  const pruned = prune(root, rules.all);
  if (pruned === undefined) throw invalidSchema(`${at}#`, "no value can satisfy it");
  const text = grammarText(pruned.root, pruned.rules);
  if (text.length > MAX_GRAMMAR_BYTES) throw invalidSchema(`${at}#`, "is too complex");
  return text;
}
