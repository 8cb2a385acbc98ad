import { LRUCache } from "lru-cache";
import type { Llama, LlamaGrammar, LlamaGrammarEvaluationState, LlamaModel, Token } from "node-llama-cpp";
import type { WorkOrder } from "../../../deploy/runtime/threads/work-threads.ts";
import type { MonotonicClock } from "../../../deploy/runtime/time/clock.ts";
import { type CallerWork, WorkGivenUp } from "../../caller-work/caller-work.ts";
import {
  digestOf,
  type GrammarInput,
  needsGrammar,
  onlyPromised,
  worthReading,
} from "../../caller-work/grammar-input.ts";
import { EngineError } from "../../errors.ts";
import { BEHIND_REASONING } from "../../grammar/output/output-grammar.ts";

type Entry<Value> = { readonly value: Value; readonly bytes: number; readonly owner: string; isUsed: boolean };

type CacheBounds = {
  readonly maxBytes: number;
  readonly maxBytesOfOwner: number;
  /** In milliseconds: a value is dropped after an idle time of half of it to the whole. */
  readonly maxUnusedMs: number;
};

/** An LRU map with limits on its bytes, in all and per owner, and on idle time. */
export class ByteBoundedCache<Value> {
  readonly #bounds: CacheBounds;
  readonly #clock: MonotonicClock;
  readonly #entries: LRUCache<string, Entry<Value>>;
  readonly #bytesOf = new Map<string, number>();
  #sweepIsDue = false;

  constructor(bounds: CacheBounds, clock: MonotonicClock) {
    this.#bounds = bounds;
    this.#clock = clock;
    this.#entries = new LRUCache({
      maxSize: bounds.maxBytes,
      sizeCalculation: ({ bytes }) => bytes,
      dispose: ({ owner, bytes }) => this.#count(owner, -bytes),
    });
  }

  get bytes(): number {
    return this.#entries.calculatedSize;
  }

  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    if (entry) entry.isUsed = true;
    return entry?.value;
  }

  /** A value larger than a limit is not kept; one with the same key is replaced, also another owner's. */
  set(key: string, value: Value, bytes: number, owner: string): void {
    this.#entries.delete(key);
    if (bytes > this.#bounds.maxBytesOfOwner) return;
    for (const oldest of this.#entries.rkeys()) {
      if ((this.#bytesOf.get(owner) ?? 0) + bytes <= this.#bounds.maxBytesOfOwner) break;
      if (this.#entries.peek(oldest)?.owner === owner) this.#entries.delete(oldest);
    }
    this.#entries.set(key, { value, bytes, owner, isUsed: true });
    this.#count(owner, bytes);
    this.#sweepLater();
  }

  #count(owner: string, bytes: number): void {
    const all = (this.#bytesOf.get(owner) ?? 0) + bytes;
    if (all > 0) this.#bytesOf.set(owner, all);
    else this.#bytesOf.delete(owner);
  }

  #sweepLater(): void {
    if (this.#sweepIsDue || this.#entries.size === 0) return;
    this.#sweepIsDue = true;
    this.#clock.after(this.#bounds.maxUnusedMs / 2, () => {
      this.#sweepIsDue = false;
      for (const [key, entry] of [...this.#entries.entries()]) {
        if (entry.isUsed) entry.isUsed = false;
        else this.#entries.delete(key);
      }
      this.#sweepLater();
    });
  }
}

export type GrammarStates = {
  readonly begin: (grammar: LlamaGrammar) => LlamaGrammarEvaluationState;
  readonly copy: (state: LlamaGrammarEvaluationState) => LlamaGrammarEvaluationState;
  readonly canTake: boolean;
  /** Returns false and changes nothing if the grammar forbids the token. Throws `EngineError` without `canTake`. */
  readonly take: (state: LlamaGrammarEvaluationState, token: Token) => boolean;
};

type StateLibrary = Pick<typeof import("node-llama-cpp"), "LlamaGrammarEvaluationState">;

type TokenSteps = {
  readonly allows: (...args: unknown[]) => unknown;
  readonly accept: (...args: unknown[]) => unknown;
};

/** Uses functions that the library does not publish, which a later version may lack. */
export function grammarStates(
  { LlamaGrammarEvaluationState: State }: StateLibrary,
  llama: Llama,
  model: LlamaModel,
): GrammarStates {
  const steps = tokenSteps(llama);
  return {
    canTake: steps !== undefined,
    begin: (grammar) => new State({ model, grammar }),
    copy: (state) => new State(state),
    take: (state, token) => {
      if (!steps) throw new EngineError("UNSUPPORTED_FEATURE", "continuation: not of an answer of a fixed form.");
      const native: unknown = Reflect.get(state, "_state");
      // The binary throws if the grammar does not allow the token.
      if (steps.allows(native, token) !== true) return false;
      steps.accept(native, token);
      return true;
    },
  };
}

function tokenSteps(llama: Llama): TokenSteps | undefined {
  const bindings: unknown = Reflect.get(llama, "_bindings");
  const sampler = member(bindings, "AddonSampler");
  const allows = member(sampler, "canBeNextTokenForGrammarEvaluationState");
  const accept = member(sampler, "acceptGrammarEvaluationStateToken");
  if (typeof allows !== "function" || typeof accept !== "function") return undefined;
  return {
    allows: (...args) => Reflect.apply(allows, sampler, args),
    accept: (...args) => Reflect.apply(accept, sampler, args),
  };
}

function member(of: unknown, name: string): unknown {
  return (typeof of === "object" && of !== null) || typeof of === "function" ? Reflect.get(of, name) : undefined;
}

const MAX_BYTES = 32 * 1024 * 1024;
const TENANT_SHARE = 1 / 2;
/** The bytes of a grammar besides its text; each of its two forms holds the text twice. */
const BYTES_PER_GRAMMAR = 1024;
const MAX_REFUSAL_BYTES = 1024 * 1024;
const BYTES_PER_REFUSAL = 1024;
/** The idle time, in milliseconds, after which grammars and refusals are gone: schemas may contain customer names. */
const MAX_UNUSED_MS = 10 * 60_000;

type CompiledGrammar = {
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

/** Tracks the position of the output in its grammar. */
export class GrammarGate {
  readonly #grammar: CompiledGrammar | undefined;
  readonly #states: GrammarStates;
  #state: LlamaGrammarEvaluationState | undefined;

  constructor(grammar: CompiledGrammar | undefined, states: GrammarStates) {
    this.#grammar = grammar;
    this.#states = states;
  }

  /** Returns the grammar state of the next token, which the sampler advances; undefined for unconstrained output. */
  state(): LlamaGrammarEvaluationState | undefined {
    if (this.#grammar && !this.#state) this.#state = this.#states.begin(this.#grammar.whole);
    return this.#state;
  }

  /** Copies the state for a token that is sampled but discarded. */
  copy(): LlamaGrammarEvaluationState | undefined {
    const state = this.state();
    return state && this.#states.copy(state);
  }

  /** Takes a token that was not sampled here. Returns false if the grammar does not allow it. */
  take(token: Token): boolean {
    const state = this.state();
    return state === undefined || this.#states.take(state, token);
  }

  reasoningEnded(): void {
    if (this.#grammar) this.#state = this.#states.begin(this.#grammar.behindReasoning);
  }
}
