import { onAbort } from "../../../../deploy/runtime/time/abort.ts";
import { type Clock, systemClock } from "../../../../deploy/runtime/time/clock.ts";
import type { Backend, BackendDescription, BackendLoad, ServedNode } from "../../../../engine/backend.ts";
import { continuedAnswer, limitOutput } from "../../../../engine/backends/request-plan.ts";
import { callerLeft, EngineError, notOfThisAnswer, throwIfLeft } from "../../../../engine/errors.ts";
import type { HeldPrefixes } from "../../../../engine/prefixes/held-prefixes.ts";
import { prefixMarks } from "../../../../engine/prefixes/prefix-marks.ts";
import type {
  CountTokensRequest,
  GenerateRequest,
  GenerateResponse,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import {
  Capability,
  EngineKind,
  Modality,
  ModelDescription,
  ModelState,
} from "../../../../proto/gen/svc/inference/v1/node_service.ts";
import { type AnswerDraw, cutAnswer, type PlannedAnswer, planAnswer, tokenIds } from "./planned-answer.ts";
import { BLOCK_TOKENS, PrefixCache } from "./prefix-cache.ts";
import { countTokens, LONGEST_TOKEN_BYTES, renderPrompt, wholeTokens } from "./render-prompt.ts";
import { type GenerationPace, SimulatedGeneration } from "./simulated-generation.ts";
import { StepLoop, StickingClock } from "./step-loop.ts";

export type SimulatorOptions = ServedNode &
  AnswerDraw &
  GenerationPace & {
    /** The tokens a second that each running generation makes, however many run. */
    readonly tokensPerSecond: number;
    /** The prompt tokens a second that the node reads, one prompt after the other. */
    readonly prefillTokensPerSecond: number;
    readonly slots: number;
    /** The number of requests that may wait for a slot. */
    readonly queueLength: number;
    /** The tokens that a prompt and its answer may have together. */
    readonly contextTokens: number;
    /** The size of the KV cache in tokens, for generations and for cached prefixes. */
    readonly kvTokens: number;
    /** The number of tokens after which answers hardly go on until the first SIGUSR2 of the process. Default: none. */
    readonly holdAfterTokens?: number | undefined;
    /** Whether SIGUSR2 of the process stops the steps, and continues them. Default: false. */
    readonly sticks?: boolean;
    /** Returns the answer to a request. Default: one drawn by `planAnswer`. */
    readonly answer?: (request: GenerateRequest) => PlannedAnswer;
  };

/** The settings that a configuration may leave out. */
export const SIMULATOR_DEFAULTS = {
  tokensPerSecond: 50,
  prefillTokensPerSecond: 5_000,
  timeToFirstTokenMs: 50,
  slots: 16,
  queueLength: 64,
  contextTokens: 262_144,
  kvTokens: 1_048_576,
  answerTokens: { min: 16, max: 256 },
  seed: 1,
};

/** The interval of progress events to waiting callers, in simulated milliseconds. */
const PROGRESS_MS = 1000;

/** The interval of tokens of a held answer, in simulated milliseconds: a silent engine would count as stuck. */
const HELD_TOKEN_MS = 5_000;

const CAPABILITIES: readonly Capability[] = [
  Capability.TOOLS,
  Capability.FORCED_TOOL_CHOICE,
  Capability.JSON_OBJECT,
  Capability.REASONING,
  Capability.REASONING_OFF,
  Capability.REASONING_BUDGET,
  Capability.EXACT_TOKEN_COUNT,
  Capability.CACHE_ISOLATION,
  Capability.PREFIX_EVENTS,
  Capability.CONTINUATION,
];

/** A backend without a model, for load and routing: a configured pace, and a prefix cache of limited size. */
export class SimulatorBackend implements Backend {
  readonly #options: SimulatorOptions;
  readonly #clock: Clock;
  readonly #cache: PrefixCache;
  readonly #loop: StepLoop;
  readonly #prefillPerStep: number;
  readonly #progressSteps: number;
  readonly #running = new Set<SimulatedGeneration>();
  readonly #waiting: SimulatedGeneration[] = [];
  /** The unused fraction of the prefill budget, in tokens. */
  #budget = 0;
  #isClosed = false;
  #holdAfterTokens = Number.POSITIVE_INFINITY;

  constructor(options: SimulatorOptions, clock: Clock = systemClock) {
    this.#options = options;
    this.#clock = clock;
    this.#cache = new PrefixCache(options.kvTokens, () => clock.nowMs());
    if (options.holdAfterTokens !== undefined) {
      this.#holdAfterTokens = options.holdAfterTokens;
      process.once("SIGUSR2", () => {
        this.#holdAfterTokens = Number.POSITIVE_INFINITY;
      });
    }
    const stepMs = 1000 / options.tokensPerSecond;
    this.#prefillPerStep = (options.prefillTokensPerSecond * stepMs) / 1000;
    this.#progressSteps = Math.max(1, Math.round(PROGRESS_MS / stepMs));
    this.#loop = new StepLoop({
      clock: options.sticks ? new StickingClock() : clock,
      stepMs,
      step: (atMs) => this.#step(atMs),
      flush: () => {
        for (const generation of [...this.#running, ...this.#waiting]) generation.flush();
      },
    });
  }

  get prefixes(): HeldPrefixes {
    return this.#cache.held;
  }

  async start(): Promise<void> {}

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#loop.stop();
    for (const generation of [...this.#running, ...this.#waiting]) generation.fail(stopped());
  }

  describe(): BackendDescription {
    return describeSimulator(this.#options);
  }

  load(): BackendLoad {
    const { slots, kvTokens } = this.#options;
    const kvTokensUsed = Math.min(
      kvTokens,
      sum(this.#running, ({ kvTokens }) => kvTokens),
    );
    const retentionMs = this.#cache.observedRetentionMs;
    return {
      slots,
      busySlots: this.#running.size,
      waiting: this.#waiting.length,
      steps: { made: this.#loop.count, inFlight: sum(this.#running, ({ asked }) => (asked ? 1 : 0)) },
      kvUse: kvTokensUsed / kvTokens,
      kvTokensUsed,
      kvTokensTotal: kvTokens,
      queuedUncachedTokens: sum([...this.#running, ...this.#waiting], ({ uncachedTokens }) => uncachedTokens),
      ...(retentionMs === undefined ? {} : { observedRetentionSeconds: retentionMs / 1000 }),
    };
  }

  async *generate(request: GenerateRequest, signal: AbortSignal): AsyncGenerator<GenerateResponse, void, void> {
    throwIfLeft(signal);
    if (this.#isClosed) throw stopped();
    const generation = this.#plan(request);
    this.#enter(generation);
    const letGo = onAbort(signal, () => generation.fail(callerLeft(signal)));
    try {
      for (let step = await generation.next(); step; step = await generation.next()) yield step;
    } finally {
      letGo();
      this.#leave(generation);
    }
  }

  async countTokens({ tools, messages }: CountTokensRequest): Promise<number> {
    return countTokens(renderPrompt(tools, messages).text);
  }

  #plan(request: GenerateRequest): SimulatedGeneration {
    const { nodeId, contextTokens, timeToFirstTokenMs, failAfterTokens } = this.#options;
    const marks = prefixMarks(request);
    const counts = marks.map(({ messages }) => messages);
    const prompt = renderPrompt(request.tools, request.messages, counts);
    const places = marks.map(({ digest }, index) => ({ digest, tokens: wholeTokens(prompt.ends[index] ?? 0) }));
    const revision = simulatorRevision(this.#options);
    const { tokens: given = [] } = continuedAnswer(request, revision) ?? {};
    const inputTokens = countTokens(prompt.text);
    const { maxOutputTokens, limitReason } = limitOutput(request, inputTokens, contextTokens);
    const planned = this.#options.answer?.(request) ?? planAnswer(request, prompt.text, this.#options);
    const answer = cutAnswer(planned, maxOutputTokens, limitReason);
    const ids = given.length === 0 ? [] : tokenIds(answer);
    if (given.some((token, at) => token !== ids[at])) throw notOfThisAnswer();
    const heldSteps = Math.ceil((HELD_TOKEN_MS * this.#options.tokensPerSecond) / 1000);
    return new SimulatedGeneration({
      nodeId,
      revision,
      prompt,
      inputTokens,
      breakpointTokens: countTokens(prompt.text.slice(0, prompt.breakpointAt)),
      named: { model: request.model, places },
      isolation: JSON.stringify([request.tenant, request.cache?.isolationSalt ?? ""]),
      priority: request.priority,
      answer,
      continuedTokens: given.length,
      timeToFirstTokenMs,
      failAfterTokens,
      isHeld: (outputTokens) => outputTokens >= this.#holdAfterTokens && this.#loop.count % heldSteps > 0,
      cache: this.#cache,
      nowMs: () => this.#clock.nowMs(),
    });
  }

  /** Takes a slot, or joins the queue behind all requests of at least its priority. Throws `EngineError` QUEUE_FULL. */
  #enter(generation: SimulatedGeneration): void {
    const ahead = this.#waiting.findLastIndex(({ priority }) => priority >= generation.priority);
    if (ahead < 0 && this.#fits(generation)) {
      this.#admit(generation);
      return;
    }
    if (this.#waiting.length >= this.#options.queueLength)
      throw new EngineError("QUEUE_FULL", "All slots are taken and the queue is full.");
    this.#waiting.splice(ahead + 1, 0, generation);
  }

  #admit(generation: SimulatedGeneration): void {
    this.#running.add(generation);
    generation.admit();
    this.#loop.start();
  }

  #leave(generation: SimulatedGeneration): void {
    this.#running.delete(generation);
    const at = this.#waiting.indexOf(generation);
    if (at >= 0) this.#waiting.splice(at, 1);
    for (let next = this.#waiting[0]; next && this.#fits(next); next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#admit(next);
    }
    if (this.#running.size === 0) this.#loop.stop();
  }

  /** Returns whether a slot and enough KV cache are free; a generation larger than the KV cache runs alone. */
  #fits(generation: SimulatedGeneration): boolean {
    if (this.#running.size === 0) return true;
    if (this.#running.size >= this.#options.slots) return false;
    return sum(this.#running, ({ kvTokens }) => kvTokens) + generation.kvTokens <= this.#options.kvTokens;
  }

  #step(atMs: number): boolean {
    // Unused whole tokens of the budget are not carried over, a fraction is.
    this.#budget = (this.#budget % 1) + this.#prefillPerStep;
    for (const generation of this.#running) this.#budget -= generation.step(atMs, Math.floor(this.#budget));
    const step = this.#loop.count;
    if (step % this.#progressSteps === 0) {
      for (const generation of this.#running) generation.progress(0, step);
      for (const [position, generation] of this.#waiting.entries()) generation.progress(position, step);
    }
    return this.#running.size > 0;
  }
}

/** Returns the model revision, a stand-in for the digest of weights: nodes with equal revisions give equal answers. */
function simulatorRevision({ seed }: Pick<SimulatorOptions, "seed">): string {
  return `simulator-${seed}`;
}

function describeSimulator(options: SimulatorOptions): BackendDescription {
  const models = options.models.map(
    (id): ModelDescription => ({
      ...ModelDescription.fromPartial({ id, revision: simulatorRevision(options), state: ModelState.READY }),
      contextWindow: options.contextTokens,
      maxOutputTokens: options.contextTokens - 1,
      kvTokenCapacity: options.kvTokens,
      kvBlockTokens: BLOCK_TOKENS,
      maxConcurrentRequests: options.slots,
      inputModalities: [Modality.TEXT, Modality.IMAGE],
      capabilities: CAPABILITIES,
      longestTokenBytes: LONGEST_TOKEN_BYTES,
    }),
  );
  return { engineKind: EngineKind.SIMULATOR, engineVersion: "1", models };
}

function stopped(): EngineError {
  return new EngineError("ENGINE_DOWN", "The engine is stopping.");
}

function sum(all: Iterable<SimulatedGeneration>, of: (generation: SimulatedGeneration) => number): number {
  let total = 0;
  for (const generation of all) total += of(generation);
  return total;
}
