import { createHash } from "node:crypto";
import type { Llama, LlamaGrammar } from "node-llama-cpp";
import { EngineError } from "../../../errors.ts";
import { BEHIND_REASONING } from "../../../grammar/output/output-grammar.ts";
import { ByteBoundedCache } from "./byte-bounded-cache.ts";
import type { GrammarCompiler } from "./grammar-compiler.ts";
import { type GrammarInput, needsGrammar } from "./grammar-input.ts";

/** What compiled grammars may hold, all together. */
const MAX_BYTES = 32 * 1024 * 1024;
/** Besides its text, which is held twice by each of its forms. */
const BYTES_PER_GRAMMAR = 1024;

/** The grammar of an output, ready to use. */
export type CompiledGrammar = {
  readonly whole: LlamaGrammar;
  /** From the end of the reasoning on. */
  readonly behindReasoning: LlamaGrammar;
};

/** Grammars by what they were made from: an agent sends the same tools again at each turn. */
export class GrammarCache {
  readonly #llama: Llama;
  readonly #compiler: GrammarCompiler;
  readonly #compiled: ByteBoundedCache<CompiledGrammar>;

  constructor(llama: Llama, compiler: GrammarCompiler, maxBytes = MAX_BYTES) {
    this.#llama = llama;
    this.#compiler = compiler;
    this.#compiled = new ByteBoundedCache(maxBytes);
  }

  /** Bytes held now, about. */
  get bytes(): number {
    return this.#compiled.bytes;
  }

  /**
   * Undefined where nothing is fixed. Throws `EngineError` INVALID_SCHEMA where a schema cannot be used, or why the caller
   * left.
   */
  async get(input: GrammarInput, signal: AbortSignal): Promise<CompiledGrammar | undefined> {
    if (!needsGrammar(input)) return undefined;
    const key = createHash("sha256").update(JSON.stringify(input)).digest("base64");
    const known = this.#compiled.get(key);
    if (known) return known;
    const text = await this.#compiler.compile(input, signal);
    if (text === undefined) return undefined;
    const whole = await this.#parse(text, "root");
    const grammar = {
      whole,
      behindReasoning: input.markers.reasoning ? await this.#parse(text, BEHIND_REASONING) : whole,
    };
    this.#compiled.set(key, grammar, BYTES_PER_GRAMMAR + 4 * text.length);
    return grammar;
  }

  async #parse(grammar: string, rootRuleName: string): Promise<LlamaGrammar> {
    try {
      return await this.#llama.createGrammar({ grammar, rootRuleName });
    } catch (cause) {
      throw new EngineError("INVALID_SCHEMA", "The schema could not be turned into a grammar.", {}, cause);
    }
  }
}
