import { createHash, randomUUID } from "node:crypto";
import { LRUCache } from "lru-cache";
import { durationMs } from "../../../../deploy/runtime/time/clock.ts";
import type { GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { EngineDialect } from "../engines/engine-dialect.ts";
import type { JsonFields } from "../http/json-fields.ts";
import { type HandOver, readHandOver, writeHandOver } from "./hand-over.ts";

/**
 * The time for which another node may begin to take a prompt, in milliseconds: two thirds of the shortest lease that an
 * engine's configuration should have (`kv_lease_duration` of vLLM, 30 s by default). The rest is for its way to the engine.
 */
export const HAND_OVER_TTL_MS = 20_000;

/** The most hand-overs of which is known that they were used, and of salts that are not used any more. */
const MAX_KNOWN = 10_000;

export type HandOverRules = NonNullable<EngineDialect["handOver"]>;

/** The prompts that this node gives other nodes, and takes from them. */
export class HandOvers {
  /** The same on nodes whose engines can take each other's prompts. */
  readonly group: string;
  readonly rules: HandOverRules;
  /** Whether one has brought the cache of another prompt: then none is taken any more. */
  isShut = false;
  readonly #onShut: () => void;
  readonly #used = new LRUCache<string, true>({ max: MAX_KNOWN });
  readonly #salts = new LRUCache<string, string>({ max: MAX_KNOWN });

  /** `facts` are those in which two engines have to agree; `onShut` is called once, when the first one was foreign. */
  constructor(rules: HandOverRules, facts: readonly string[], onShut: () => void) {
    this.rules = rules;
    this.group = createHash("sha256").update(JSON.stringify(facts)).digest("hex").slice(0, 16);
    this.#onShut = onShut;
  }

  /** Returns the bytes for another node from the engine's reply; undefined where it has kept nothing. */
  made(prompt: string, reply: JsonFields): Buffer | undefined {
    const engine = this.rules.read(reply);
    return engine && writeHandOver({ group: this.group, prompt, first: this.rules.candidates(reply), engine });
  }

  /**
   * Returns the hand-over of a request that is to be used now, once; undefined where the node has to read the prompt,
   * which has this digest. `agoMs` is the time since the request arrived.
   */
  taken({ handOver: bytes, handOverLeft }: GenerateRequest, prompt: string, agoMs: number): HandOver | undefined {
    if (this.isShut || !handOverLeft || durationMs(handOverLeft) <= agoMs) return undefined;
    const handOver = readHandOver(bytes);
    if (!handOver || handOver.group !== this.group || handOver.prompt !== prompt) return undefined;
    const name = this.rules.nameOf(handOver.engine);
    // Behind its first use, the other engine gives the memory to other prompts.
    if (name === undefined || this.#used.has(name)) return undefined;
    this.#used.set(name, true);
    return handOver;
  }

  /**
   * Records that a hand-over has brought another prompt's cache, which the engine now keeps under this one's tokens: what
   * it has cached under the salt is not read again.
   */
  wasForeign(salt: string): void {
    this.#salts.set(salt, `${salt}${randomUUID()}`);
    if (!this.isShut) this.#onShut();
    this.isShut = true;
  }

  /** Returns the salt under which the engine's cache of a tenant is sound; it is another one after a foreign hand-over. */
  saltOf(salt: string): string {
    return this.#salts.get(salt) ?? salt;
  }
}
