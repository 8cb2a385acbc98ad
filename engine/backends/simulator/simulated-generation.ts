import type { Event, GenerateResponse } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineError } from "../../errors.ts";
import { finished, type PhaseTimes, progress, started, stepOf, timings } from "../stream-events.ts";
import { answerLength, answerParts, type PlannedAnswer, tokenIds } from "./planned-answer.ts";
import { blockKeys, type NamedPlaces, type PrefixCache } from "./prefix-cache.ts";
import { type RenderedPrompt, renderAnswered } from "./render-prompt.ts";
import type { InjectedFailure } from "./simulator-options.ts";

type Phase =
  | { readonly at: "queue" }
  | { readonly at: "prefill"; remaining: number }
  /** Between prefill and decoding: the prompt has been read, and the first token is not there yet. */
  | { readonly at: "settle"; readonly untilMs: number }
  | { readonly at: "decode" }
  | { readonly at: "end" };

/** All that a simulated generation does, known before it begins. */
export type GenerationPlan = {
  /** The name of the node. */
  readonly nodeId: string;
  /** The revision of the model. */
  readonly revision: string;
  /** The rendered prompt. */
  readonly prompt: RenderedPrompt;
  /** The tokens of the prompt. */
  readonly inputTokens: number;
  /** The tokens up to the caller's last cache breakpoint; 0 without one. */
  readonly breakpointTokens: number;
  /** The places that digests name in the prompt. */
  readonly named: NamedPlaces;
  /** The tenant and salt whose prefixes the generation may reuse. */
  readonly isolation: string;
  /** The priority of the request in the queue; a higher one runs earlier. */
  readonly priority: number;
  /** The answer. */
  readonly answer: PlannedAnswer;
  /** The number of its tokens that another call has made before, which are read with the prompt; 0 where none did. */
  readonly continuedTokens: number;
  /** The time from the end of the prefill to the first token, in milliseconds. */
  readonly timeToFirstTokenMs: number;
  /** The failure to inject, and after how many tokens. */
  readonly failure: InjectedFailure;
  /** The prefix cache of the node, which all its generations share. */
  readonly cache: PrefixCache;
  /** Returns the time of a monotonic clock, in milliseconds. */
  readonly nowMs: () => number;
};

/** Runs one request through the simulated engine. Steps advance it only while its caller asks for more. */
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

  /** The priority in the queue; a higher one runs earlier. */
  get priority(): number {
    return this.#plan.priority;
  }

  /** Whether the request's caller waits for more. */
  get asked(): boolean {
    return this.#wake !== undefined;
  }

  /** The tokens of KV memory that the request may come to need. */
  get kvTokens(): number {
    return this.#plan.inputTokens + answerLength(this.#plan.answer);
  }

  /** The tokens of the prompt, and of an answer that is gone on with, that are still to be read. */
  get uncachedTokens(): number {
    if (this.#phase.at === "prefill") return this.#phase.remaining;
    return this.#phase.at === "queue" ? this.#readTokens - this.#hit() : 0;
  }

  /**
   * Resolves to what has been produced since the last call, or to what comes next; undefined after the end. Throws
   * `EngineError`.
   */
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

  /** Begins the generation, as a slot is free: the prompt is looked up, and a continuation comes to where it was. */
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

  /**
   * Makes one step at `atMs`, with at most `budget` prompt tokens to read; returns how many it took of them. A caller
   * that does not ask gets nothing: its pace is the generation's.
   */
  step(atMs: number, budget: number): number {
    if (!this.#wake) return 0;
    const phase = this.#phase;
    if (phase.at === "prefill") return this.#prefill(phase, atMs, budget);
    if (phase.at === "settle" && phase.untilMs <= atMs) this.#phase = { at: "decode" };
    if (this.#phase.at === "decode") this.#decode(atMs);
    return 0;
  }

  /** Makes a sign of life for a caller that has been waiting. */
  progress(queuePosition: number, step: number): void {
    if (!this.#wake || this.#events.length > 0 || this.#phase.at === "decode" || this.#phase.at === "end") return;
    const remaining = this.#phase.at === "prefill" ? this.#phase.remaining : 0;
    const readTokens = this.#phase.at === "queue" ? 0 : this.#readTokens - remaining;
    this.#events.push(progress(queuePosition, Math.min(readTokens, this.#plan.inputTokens), step));
  }

  /** Wakes the caller when there is something for it. */
  flush(): void {
    if (this.#events.length === 0 && this.#phase.at !== "end") return;
    this.#wake?.();
    this.#wake = undefined;
  }

  /** Ends the generation with an error; a caller that waits hears of it at once. */
  fail(error: EngineError): void {
    if (this.#phase.at === "end") return;
    this.#error = error;
    this.#phase = { at: "end" };
    this.flush();
  }

  /** The tokens that are read before the first new one can come. */
  get #readTokens(): number {
    return this.#plan.inputTokens + this.#plan.continuedTokens;
  }

  get #isWhole(): boolean {
    return this.#nextBlock >= this.#plan.answer.blocks.length;
  }

  /** Returns the cached tokens. At least one token of every prompt is read anew, as the first output needs it. */
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
    const { continuedTokens, failure } = this.#plan;
    if (failure !== "none" && this.#outputTokens - continuedTokens >= failure.afterTokens) {
      this.#error = new EngineError("ENGINE_STREAM_TRUNCATED", "The engine's stream broke off.");
      this.#phase = { at: "end" };
      return;
    }
    this.#write();
    if (this.#isWhole) this.#finish(atMs);
  }

  /** Writes the next token of the answer, where there is one. */
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

  /** Steps are dated by when they were due, which may be a little before they were made. */
  #times(atMs: number): PhaseTimes {
    return {
      queueMs: this.#admittedMs - this.#arrivedMs,
      prefillMs: this.#prefilledMs - this.#admittedMs,
      decodeMs: atMs - this.#prefilledMs,
    };
  }
}
