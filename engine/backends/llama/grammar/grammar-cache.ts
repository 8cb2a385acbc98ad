import type { Llama, LlamaGrammar } from "node-llama-cpp";
import type { WorkOrder } from "../../../../deploy/runtime/threads/work-threads.ts";
import type { MonotonicClock } from "../../../../deploy/runtime/time/clock.ts";
import { type CallerWork, WorkGivenUp } from "../../../caller-work/caller-work.ts";
import {
  digestOf,
  type GrammarInput,
  needsGrammar,
  onlyPromised,
  worthReading,
} from "../../../caller-work/grammar-input.ts";
import { EngineError } from "../../../errors.ts";
import { BEHIND_REASONING } from "../../../grammar/output/output-grammar.ts";
import { ByteBoundedCache, type CacheBounds } from "./byte-bounded-cache.ts";

const MAX_BYTES = 32 * 1024 * 1024;
const TENANT_SHARE = 1 / 2;
/** The bytes of a grammar besides its text; each of its two forms holds the text twice. */
const BYTES_PER_GRAMMAR = 1024;
const MAX_REFUSAL_BYTES = 1024 * 1024;
const BYTES_PER_REFUSAL = 1024;
/** The idle time after which grammars and refusals are dropped, in milliseconds: schemas may contain customer names. */
const MAX_UNUSED_MS = 10 * 60_000;

export type CompiledGrammar = {
  readonly whole: LlamaGrammar;
  /** The grammar from the end of the reasoning. */
  readonly behindReasoning: LlamaGrammar;
};

export type GrammarOrder = WorkOrder & {
  /** The tenant and its cache salt: the timing of a cached grammar must reveal nothing to others. */
  readonly isolation: string;
};

/** Caches grammars, and refusals of schemas, by their inputs: an agent sends the same tools at each turn. */
export class GrammarCache {
  readonly #llama: Llama;
  readonly #work: Pick<CallerWork, "run">;
  readonly #compiled: ByteBoundedCache<CompiledGrammar>;
  readonly #refused: ByteBoundedCache<EngineError>;

  /** `maxBytes` limits all grammars; those of one tenant may use half of it. */
  constructor(llama: Llama, work: Pick<CallerWork, "run">, clock: MonotonicClock, maxBytes = MAX_BYTES) {
    this.#llama = llama;
    this.#work = work;
    this.#compiled = new ByteBoundedCache(boundsOf(maxBytes), clock);
    this.#refused = new ByteBoundedCache(boundsOf(MAX_REFUSAL_BYTES), clock);
  }

  get bytes(): number {
    return this.#compiled.bytes;
  }

  /** Undefined for unconstrained output. Throws `EngineError` INVALID_SCHEMA or QUEUE_FULL, or why the caller left. */
  async get(input: GrammarInput, order: GrammarOrder): Promise<CompiledGrammar | undefined> {
    if (!needsGrammar(input)) return undefined;
    return this.#get(worthReading(input), order);
  }

  async #get(input: GrammarInput, order: GrammarOrder): Promise<CompiledGrammar | undefined> {
    const key = digestOf(input, order.isolation);
    const known = this.#compiled.get(key);
    if (known) return known;
    const refusal = this.#refused.get(key);
    if (refusal) throw refusal;
    try {
      return await this.#make(key, input, order);
    } catch (error) {
      if (error instanceof EngineError && error.reason === "INVALID_SCHEMA")
        this.#refused.set(key, error, BYTES_PER_REFUSAL, order.tenant);
      throw error;
    }
  }

  async #make(key: string, input: GrammarInput, order: GrammarOrder): Promise<CompiledGrammar | undefined> {
    const text = await this.#write(input, order);
    if (text === undefined) return undefined;
    const whole = await this.#parse(text, "root");
    const grammar = {
      whole,
      behindReasoning: input.markers.reasoning ? await this.#parse(text, BEHIND_REASONING) : whole,
    };
    this.#compiled.set(key, grammar, BYTES_PER_GRAMMAR + 4 * text.length, order.tenant);
    return grammar;
  }

  async #write(input: GrammarInput, order: GrammarOrder): Promise<string | undefined> {
    try {
      return (await this.#work.run("grammar", input, order)).text;
    } catch (error) {
      if (!(error instanceof WorkGivenUp)) throw error;
      const promised = onlyPromised(input);
      if (promised !== undefined) return this.#write(promised, order);
      throw new EngineError("INVALID_SCHEMA", "The schema is too complex to be turned into a grammar.", {}, error);
    }
  }

  async #parse(grammar: string, rootRuleName: string): Promise<LlamaGrammar> {
    try {
      return await this.#llama.createGrammar({ grammar, rootRuleName });
    } catch (cause) {
      throw new EngineError("INVALID_SCHEMA", "The schema could not be turned into a grammar.", {}, cause);
    }
  }
}

function boundsOf(maxBytes: number): CacheBounds {
  return { maxBytes, maxBytesOfOwner: maxBytes * TENANT_SHARE, maxUnusedMs: MAX_UNUSED_MS };
}
