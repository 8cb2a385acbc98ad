import { LRUCache } from "lru-cache";
import type { WorkOrder } from "../../../../deploy/runtime/threads/work-threads.ts";
import { type CallerWork, WorkGivenUp } from "../../../caller-work/caller-work.ts";
import {
  digestOf,
  type GrammarInput,
  needsGrammar,
  onlyPromised,
  worthReading,
} from "../../../caller-work/grammar-input.ts";
import { EngineError } from "../../../errors.ts";

/** The most characters of all cached grammars, and the idle time after which one is dropped, in milliseconds. */
const BOUNDS = { maxSize: 16 * 1024 * 1024, ttl: 10 * 60_000, updateAgeOnGet: true } as const;

/** Writes the grammars of answers, and caches them: an agent sends the same tools at each turn. */
export class AnswerGrammars {
  readonly #work: Pick<CallerWork, "run">;
  readonly #texts = new LRUCache<string, string>({ ...BOUNDS, sizeCalculation: ({ length }) => length });

  constructor(work: Pick<CallerWork, "run">) {
    this.#work = work;
  }

  /**
   * Resolves to the grammar of an answer as text; undefined for free output. Only requests with an equal `isolation`
   * share grammars. Throws `EngineError` INVALID_SCHEMA if a schema cannot be used.
   */
  async get(input: GrammarInput, isolation: string, order: WorkOrder): Promise<string | undefined> {
    if (!needsGrammar(input)) return undefined;
    const read = worthReading(input);
    const key = digestOf(read, isolation);
    const known = this.#texts.get(key);
    if (known !== undefined) return known;
    const text = await this.#write(read, order);
    if (text !== undefined) this.#texts.set(key, text);
    return text;
  }

  async #write(input: GrammarInput, order: WorkOrder): Promise<string | undefined> {
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
