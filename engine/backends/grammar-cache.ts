import { LRUCache } from "lru-cache";
import type { WorkOrder } from "../../deploy/runtime/threads/work-threads.ts";
import type { MonotonicClock } from "../../deploy/runtime/time/clock.ts";
import { type CallerWork, WorkGivenUp } from "../caller-work/caller-work.ts";
import { digestOf, type GrammarInput, needsGrammar, onlyPromised, worthReading } from "../caller-work/grammar-input.ts";
import { EngineError } from "../errors.ts";

const MAX_BYTES = 32 * 1024 * 1024;
const TENANT_SHARE = 1 / 2;
/** The bytes of a grammar besides its text; each of its two forms holds the text twice. */
const BYTES_PER_GRAMMAR = 1024;
const MAX_REFUSAL_BYTES = 1024 * 1024;
const BYTES_PER_REFUSAL = 1024;
/** The idle time, in milliseconds, after which grammars and refusals are gone: schemas may contain customer names. */
const MAX_UNUSED_MS = 10 * 60_000;

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

export type GrammarOrder = WorkOrder & {
  /** The tenant and its cache salt: the timing of a cached grammar must reveal nothing to others. */
  readonly isolation: string;
};

/** Makes an engine's grammar of its text. Throws `EngineError` INVALID_SCHEMA. */
export type GrammarCompiler<Grammar> = (text: string, input: GrammarInput) => Promise<Grammar>;

/** Caches grammars, and refusals of schemas, by their inputs: an agent sends the same tools at each turn. */
export class GrammarCache<Grammar> {
  readonly #compile: GrammarCompiler<Grammar>;
  readonly #work: Pick<CallerWork, "run">;
  readonly #compiled: ByteBoundedCache<Grammar>;
  readonly #refused: ByteBoundedCache<EngineError>;

  /** `maxBytes` limits all grammars; those of one tenant may use half of it. */
  constructor(
    compile: GrammarCompiler<Grammar>,
    work: Pick<CallerWork, "run">,
    clock: MonotonicClock,
    maxBytes = MAX_BYTES,
  ) {
    this.#compile = compile;
    this.#work = work;
    this.#compiled = new ByteBoundedCache(boundsOf(maxBytes), clock);
    this.#refused = new ByteBoundedCache(boundsOf(MAX_REFUSAL_BYTES), clock);
  }

  get bytes(): number {
    return this.#compiled.bytes;
  }

  /** Undefined for unconstrained output. Throws `EngineError` INVALID_SCHEMA or QUEUE_FULL, or why the caller left. */
  async get(input: GrammarInput, order: GrammarOrder): Promise<Grammar | undefined> {
    if (!needsGrammar(input)) return undefined;
    const read = worthReading(input);
    // The rest of one answer is asked for once, and holds its text.
    return read.behind ? (await this.#make(read, order))?.grammar : this.#get(read, order);
  }

  async #get(input: GrammarInput, order: GrammarOrder): Promise<Grammar | undefined> {
    const key = digestOf(input, order.isolation);
    const known = this.#compiled.get(key);
    if (known) return known;
    const refusal = this.#refused.get(key);
    if (refusal) throw refusal;
    try {
      const made = await this.#make(input, order);
      if (made) this.#compiled.set(key, made.grammar, BYTES_PER_GRAMMAR + 4 * made.text.length, order.tenant);
      return made?.grammar;
    } catch (error) {
      if (error instanceof EngineError && error.reason === "INVALID_SCHEMA")
        this.#refused.set(key, error, BYTES_PER_REFUSAL, order.tenant);
      throw error;
    }
  }

  async #make(input: GrammarInput, order: GrammarOrder) {
    const text = await this.#write(input, order);
    return text === undefined ? undefined : { text, grammar: await this.#compile(text, input) };
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
}

function boundsOf(maxBytes: number): CacheBounds {
  return { maxBytes, maxBytesOfOwner: maxBytes * TENANT_SHARE, maxUnusedMs: MAX_UNUSED_MS };
}
