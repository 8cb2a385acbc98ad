import {
  finished,
  type PhaseTimes,
  progress,
  started,
  stepOf,
  timings,
} from "../../../../engine/backends/stream-events.ts";
import { EngineError } from "../../../../engine/errors.ts";
import type { Event, GenerateResponse } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { answerLength, answerParts, type PlannedAnswer, tokenIds } from "./planned-answer.ts";
import { blockKeys, type NamedPlaces, type PrefixCache } from "./prefix-cache.ts";
import { type RenderedPrompt, renderAnswered } from "./render-prompt.ts";

type Phase =
  | { readonly at: "queue" }
  | { readonly at: "prefill"; remaining: number }
  /** Between prefill and decode: the prompt has been read, and the first token is not due yet. */
  | { readonly at: "settle"; readonly untilMs: number }
  | { readonly at: "decode" }
  | { readonly at: "end" };

export type GenerationPace = {
  /** The time from the end of a prefill to the first token, in milliseconds. */
  readonly timeToFirstTokenMs: number;
  /** The number of tokens after which every stream breaks off. Default: none does. */
  readonly failAfterTokens?: number | undefined;
};

export type GenerationPlan = GenerationPace & {
  readonly nodeId: string;
  readonly revision: string;
  readonly prompt: RenderedPrompt;
  readonly inputTokens: number;
  /** The tokens up to the caller's last cache breakpoint; 0 without one. */
  readonly breakpointTokens: number;
  readonly named: NamedPlaces;
  /** The tenant and salt whose prefixes the generation may reuse. */
  readonly isolation: string;
  readonly priority: number;
  readonly answer: PlannedAnswer;
  /** The number of answer tokens that earlier calls made, which are prefilled with the prompt; 0 for none. */
  readonly continuedTokens: number;
  readonly isHeld: (outputTokens: number) => boolean;
  readonly cache: PrefixCache;
  readonly nowMs: () => number;
};

/** Runs one request through the simulated engine. Steps advance it only while its caller waits for more. */
export class SimulatedGeneration {
  readonly #plan: GenerationPlan;
  readonly #keys: readonly number[];
  readonly #tokenIds: readonly number[];
  #phase: Phase = { at: "queue" };
  #events: Event[] = [];
  #tokens: number[] = [];
  #error: EngineError | undefined;
  #wake: (() => void) | undefined;
  #cachedTokens = 0;
  #nextBlock = 0;
  #nextToken = 0;
  #outputTokens = 0;
  #reasoningTokens = 0;
  readonly #arrivedMs: number;
  #admittedMs = 0;
  #prefilledMs = 0;

  constructor(plan: GenerationPlan) {
    this.#plan = plan;
    this.#keys = blockKeys(plan.prompt.text, plan.isolation);
    this.#tokenIds = tokenIds(plan.answer);
    this.#arrivedMs = plan.nowMs();
  }

  get priority(): number {
    return this.#plan.priority;
  }

  get asked(): boolean {
    return this.#wake !== undefined;
  }

  get kvTokens(): number {
    return this.#plan.inputTokens + answerLength(this.#plan.answer);
  }

  get uncachedTokens(): number {
    if (this.#phase.at === "prefill") return this.#phase.remaining;
    return this.#phase.at === "queue" ? this.#readTokens - this.#hit() : 0;
  }

  /** Resolves to the output since the last call, or to the next one; undefined after the end. Throws `EngineError`. */
  async next(): Promise<GenerateResponse | undefined> {
    while (this.#events.length === 0) {
      if (this.#error) throw this.#error;
      if (this.#phase.at === "end") return undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const step = stepOf(this.#events, this.#tokens);
    this.#events = [];
    this.#tokens = [];
    return step;
  }

  /** Starts it in a free slot: looks up the prompt in the cache, and restores the state of a continuation. */
  admit(): void {
    const { plan, hit } = { plan: this.#plan, hit: this.#hit() };
    this.#admittedMs = plan.nowMs();
    this.#cachedTokens = hit;
    this.#phase = { at: "prefill", remaining: this.#readTokens - hit };
    const { nodeId, revision: modelRevision, inputTokens } = plan;
    this.#events.push(started({ nodeId, modelRevision, inputTokens, cachedInputTokens: hit, sampling: undefined }));
    for (let token = 0; token < plan.continuedTokens; token += 1) this.#write();
    if (plan.continuedTokens > 0 && this.#isWhole) this.#finish(this.#admittedMs);
    this.flush();
  }

  /** Runs one step that prefills at most `budget` tokens; returns the used ones. It needs a waiting caller. */
  step(atMs: number, budget: number): number {
    if (!this.#wake) return 0;
    const phase = this.#phase;
    if (phase.at === "prefill") return this.#prefill(phase, atMs, budget);
    if (phase.at === "settle" && phase.untilMs <= atMs) this.#phase = { at: "decode" };
    if (this.#phase.at === "decode") this.#decode(atMs);
    return 0;
  }

  progress(queuePosition: number, step: number): void {
    if (!this.#wake || this.#events.length > 0 || this.#phase.at === "decode" || this.#phase.at === "end") return;
    const remaining = this.#phase.at === "prefill" ? this.#phase.remaining : 0;
    const readTokens = this.#phase.at === "queue" ? 0 : this.#readTokens - remaining;
    this.#events.push(progress(queuePosition, Math.min(readTokens, this.#plan.inputTokens), step));
  }

  flush(): void {
    if (this.#events.length === 0 && this.#phase.at !== "end") return;
    this.#wake?.();
    this.#wake = undefined;
  }

  fail(error: EngineError): void {
    if (this.#phase.at === "end") return;
    this.#error = error;
    this.#phase = { at: "end" };
    this.flush();
  }

  get #readTokens(): number {
    return this.#plan.inputTokens + this.#plan.continuedTokens;
  }

  get #isWhole(): boolean {
    return this.#nextBlock >= this.#plan.answer.blocks.length;
  }

  /** Returns the cached tokens. At least one prompt token is always evaluated, as the first output depends on it. */
  #hit(): number {
    return Math.min(this.#plan.cache.cachedTokens(this.#keys), this.#plan.inputTokens - 1);
  }

  #prefill(phase: { remaining: number }, atMs: number, budget: number): number {
    const taken = Math.min(budget, phase.remaining);
    phase.remaining -= taken;
    if (phase.remaining > 0) return taken;
    this.#prefilledMs = atMs;
    this.#plan.cache.store(this.#keys, this.#plan.named);
    this.#phase = { at: "settle", untilMs: atMs + this.#plan.timeToFirstTokenMs };
    return taken;
  }

  #decode(atMs: number): void {
    if (this.#plan.isHeld(this.#outputTokens)) return;
    const { continuedTokens, failAfterTokens = Number.POSITIVE_INFINITY } = this.#plan;
    if (this.#outputTokens - continuedTokens >= failAfterTokens) {
      this.#error = new EngineError("ENGINE_STREAM_TRUNCATED", "The engine's stream broke off.");
      this.#phase = { at: "end" };
      return;
    }
    this.#write();
    if (this.#isWhole) this.#finish(atMs);
  }

  #write(): void {
    const block = this.#plan.answer.blocks[this.#nextBlock];
    if (!block) return;
    const index = this.#nextBlock;
    if (this.#nextToken === 0)
      this.#events.push({ kind: { $case: "blockStarted", value: { index, block: block.block } } });
    const text = block.tokens[this.#nextToken] ?? "";
    this.#events.push({ kind: { $case: "blockDelta", value: { index, text, logprobs: [] } } });
    this.#tokens.push(this.#tokenIds[this.#outputTokens] ?? 0);
    this.#nextToken += 1;
    this.#outputTokens += 1;
    if (block.block.$case === "reasoning") this.#reasoningTokens += 1;
    if (this.#nextToken < block.tokens.length) return;
    this.#events.push({ kind: { $case: "blockEnded", value: { index, complete: block.complete } } });
    this.#nextBlock += 1;
    this.#nextToken = 0;
  }

  #finish(atMs: number): void {
    const { answer, cache, prompt, isolation, named, inputTokens, breakpointTokens } = this.#plan;
    cache.store(blockKeys(renderAnswered(prompt, answerParts(answer)), isolation), named);
    const usage = {
      inputTokens,
      cachedInputTokens: this.#cachedTokens,
      cacheWriteTokens: Math.max(0, breakpointTokens - this.#cachedTokens),
      outputTokens: this.#outputTokens,
      reasoningTokens: this.#reasoningTokens,
    };
    const { reason, matchedStop } = answer;
    this.#events.push(finished({ reason, matchedStop, usage, timings: timings(this.#times(atMs)) }));
    this.#phase = { at: "end" };
  }

  /** Steps are dated by their due time, which may be slightly before they ran. */
  #times(atMs: number): PhaseTimes {
    return {
      queueMs: this.#admittedMs - this.#arrivedMs,
      prefillMs: this.#prefilledMs - this.#admittedMs,
      decodeMs: atMs - this.#prefilledMs,
    };
  }
}
