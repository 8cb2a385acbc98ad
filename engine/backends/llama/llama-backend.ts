import { readFile } from "node:fs/promises";
import { linkAbort, sharedAbort } from "../../../deploy/runtime/time/abort.ts";
import { type Clock, systemClock } from "../../../deploy/runtime/time/clock.ts";
import type {
  CountTokensRequest,
  GenerateRequest,
  GenerateResponse,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineKind } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import type { Backend, BackendDescription, BackendLoad } from "../../backend.ts";
import type { CallerWork } from "../../caller-work/caller-work.ts";
import type { PromptFormat } from "../../conversation/prompt-renderer.ts";
import { SegmentCache } from "../../conversation/segment-cache.ts";
import { EngineError } from "../../errors.ts";
import type { OutputMarkers } from "../../output-parser/markers.ts";
import { HeldPrefixes, type KvTokens } from "../../prefixes/held-prefixes.ts";
import {
  chooseProfile,
  loadProfile,
  type ModelProfile,
  usableMarkers,
  withGenericCalls,
} from "../../profiles/profile.ts";
import { planConversation } from "../answer-plan.ts";
import { familyFormat } from "../conversation-rendering.ts";
import { GrammarCache } from "../grammar-cache.ts";
import { modelIdentity, VOCABULARY_TEXT } from "../model-revision.ts";
import { type DescribedModel, describeModel, weightsOf } from "./describe.ts";
import { grammarCompiler, grammarStates } from "./generation/answer-grammar.ts";
import { generate } from "./generation/generation.ts";
import type { EngineParts, Waiting } from "./generation/prepared-generation.ts";
import { Sampler, samplingDefaults } from "./generation/sampling.ts";
import type { LlamaOptions } from "./runtime/llama-options.ts";
import { type LlamaRuntime, loadRuntime } from "./runtime/llama-runtime.ts";
import { PrefillTurns, tokenCost } from "./slots/prefill-turns.ts";
import { Queue } from "./slots/queue.ts";
import { type Slot, Slots } from "./slots/slots.ts";
import { Steps } from "./slots/steps.ts";
import { PORTION_UNITS, PromptEncoder, type PromptEncoderOptions } from "./tokens/prompt-encoder.ts";
import { markTokens, readVocabulary, TokenTexts, type Vocabulary, withoutTokens } from "./tokens/vocabulary.ts";

const BEAT_MS = 1000;

type Running = {
  readonly parts: EngineParts;
  readonly described: DescribedModel;
  readonly engineVersion: string;
  readonly notes: readonly string[];
  readonly stopBeat: () => void;
};

/** Shorter segments of a prompt cost as little to tokenize as to find. */
const MIN_SEGMENT_UNITS = 24;

export class LlamaBackend implements Backend {
  /** Always true, as the sampler cannot leave the grammar of a strict schema. */
  readonly holdsStrict = true;
  readonly prefixes = new HeldPrefixes(() => this.#kvTokens());
  readonly promptMegabytes: number;
  readonly #options: LlamaOptions;
  readonly #clock: Clock;
  readonly #closing = sharedAbort();
  readonly #work: Pick<CallerWork, "run" | "moves" | "parseFailed">;
  #running: Running | undefined;

  onNote: (note: string) => void = () => {};
  onLoad: (part: number) => void = () => {};

  /** `work` runs the jobs that callers' input causes; its owner closes it. */
  constructor(
    options: LlamaOptions,
    work: Pick<CallerWork, "run" | "moves" | "parseFailed">,
    clock: Clock = systemClock,
  ) {
    this.#options = options;
    this.promptMegabytes = options.tokenCacheMegabytes;
    this.#work = work;
    this.#clock = clock;
  }

  /** Throws `EngineError` ENGINE_DOWN if the package, its binary or the model is missing or does not fit. */
  async start(signal: AbortSignal): Promise<void> {
    const runtime = await loadRuntime(this.#options, signal, (part) => this.onLoad(part));
    runtime.decoder.onThreads = (count) => this.onNote(threadsNote(count));
    try {
      await this.#warmUp(runtime);
      this.#running = await this.#assemble(runtime);
    } catch (error) {
      await runtime.close();
      throw error;
    }
  }

  describe(): BackendDescription {
    const running = this.#running;
    return {
      engineKind: EngineKind.LLAMA_CPP,
      engineVersion: running?.engineVersion ?? "",
      models: this.#options.models.map((id) => describeModel(id, running?.described)),
    };
  }

  async gpuMemoryBytes(): Promise<number | undefined> {
    const { total, used } = (await this.#running?.parts.runtime.llama.getVramState()) ?? { total: 0, used: 0 };
    return total > 0 ? used : undefined;
  }

  endLease(digest: string): void {
    this.#running?.parts.slots.endLease(digest);
  }

  load(): BackendLoad {
    const running = this.#running;
    if (!running) return { slots: this.#options.slots, busySlots: 0, waiting: 0 };
    const { slots, queue, steps, turns, runtime, prompts } = running.parts;
    const { decoder, kvBytes, contextWindow, sequences } = runtime;
    const kvTokensTotal = running.described.contextWindow * slots.count;
    return {
      slots: slots.count,
      busySlots: slots.busy,
      waiting: queue.length,
      steps: { made: steps.done, inFlight: steps.inFlight },
      passes: { step: decoder.passes - decoder.passesForGaps, gap: decoder.passesForGaps },
      kvUse: slots.tokensInUse / kvTokensTotal,
      kvTokensUsed: slots.tokensInUse,
      kvTokensTotal,
      kvMemory: {
        reserved: kvBytes,
        held: Math.round((kvBytes * slots.tokensHeld) / (contextWindow * sequences.length)),
      },
      promptTokens: prompts.promptTokens,
      queuedUncachedTokens: queue.wants().reduce((sum, { uncachedTokens }) => sum + uncachedTokens, turns.unread),
      ...(slots.retentionMs === undefined ? {} : { observedRetentionSeconds: slots.retentionMs / 1000 }),
    };
  }

  async *generate(request: GenerateRequest, signal: AbortSignal): AsyncGenerator<GenerateResponse, void, void> {
    const parts = this.#parts();
    const link = linkAbort(signal, this.#closing.signal);
    try {
      yield* generate(parts, request, link.signal);
    } finally {
      link.release();
    }
  }

  async countTokens(request: CountTokensRequest, signal: AbortSignal): Promise<number> {
    const { prompts, profile } = this.#parts();
    const { conversation } = planConversation(request, profile.thinking);
    return prompts.count(conversation, { tenant: request.tenant, salt: request.cache?.isolationSalt ?? "", signal });
  }

  async close(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    if (!running) return;
    running.stopBeat();
    const stopping = new EngineError("ENGINE_DOWN", "The engine is stopping.");
    this.#closing.abort(stopping);
    running.parts.queue.close(stopping);
    // The context must not be freed while a step of it runs.
    await Promise.all([...running.parts.leases].map((lease) => lease.close()));
    running.parts.slots.close();
    await running.parts.runtime.close();
  }

  #kvTokens(): KvTokens {
    const running = this.#running;
    if (!running) return { used: 0, total: 0 };
    const { slots } = running.parts;
    const { contextWindow } = running.described;
    // A slot is evicted whole, however short its conversation is.
    return { used: contextWindow * slots.inUse, total: contextWindow * slots.count };
  }

  #parts(): EngineParts {
    if (!this.#running) throw new EngineError("MODEL_LOADING", "The model is not loaded.");
    return this.#running.parts;
  }

  startNotes(): readonly string[] {
    return this.#running?.notes ?? [];
  }

  /** Generates one token, so that an incompatible model fails before the first request. */
  async #warmUp({ model, sequences, decoder }: LlamaRuntime): Promise<void> {
    const [sequence] = sequences;
    const token = model.tokens.bos ?? model.tokens.eos ?? model.tokenize("a")[0];
    if (!sequence || token === undefined) throw new EngineError("ENGINE_DOWN", "The model has no tokens.");
    const sampler = new Sampler(decoder, sequence, {
      evaluateOptions: { temperature: 0 },
      alternatives: undefined,
      seed: undefined,
      position: () => 0,
    });
    try {
      await sampler.next([token]);
    } finally {
      sampler.close();
    }
    await sequence.clearHistory();
  }

  async #assemble(runtime: LlamaRuntime): Promise<Running> {
    const { model, llama, contextWindow } = runtime;
    const { nodeId, modelPath, templatePath, queueLength, maxQueueWaitMs } = this.#options;
    const { metadata } = model.fileInfo;
    const vocabulary = readVocabulary(model);
    const named = this.#options.profile === undefined ? undefined : loadProfile(this.#options.profile);
    const source = await templateSource(templatePath, metadata.tokenizer.chat_template, named?.renderer !== undefined);
    const family = familyOf(named, metadata.general, source, vocabulary, templatePath !== undefined);
    const { profile, markers, familyNotes } = family;
    const format = promptFormat(source, vocabulary, profile, markers);
    const segments = new SegmentCache(this.#clock, this.#options.tokenCacheMegabytes, MIN_SEGMENT_UNITS);
    const prompts = newEncoder({ model, vocabulary, format, contextWindow, work: this.#work, segments });
    const { revision, basis } = await modelIdentity(this.#options.weights ?? (await weightsOf(modelPath, metadata)), {
      markers,
      vocabularyTokens: model.tokenize(VOCABULARY_TEXT, true),
      promptOf: async (conversation) => prompts.textOf(planConversation(conversation, profile.thinking).conversation),
    });
    const queue = new Queue<Waiting, Slot>({ maxLength: queueLength, maxWaitMs: maxQueueWaitMs, clock: this.#clock });
    const steps = new Steps();
    const slots: Slots = new Slots({
      ...{ sequences: runtime.sequences, steps, held: this.prefixes, clock: this.#clock },
      copy: (to, from) => runtime.decoder.copy(to, from),
      onFree: () => queue.serve(({ demand }) => slots.take(demand)),
    });
    const turns = new PrefillTurns(runtime.decoder.batchTokens, tokenCost(model.embeddingVectorSize));
    runtime.decoder.onBatch = (batch) => turns.learn(batch);
    const marks = markTokens(markers, vocabulary);
    const parts: EngineParts = {
      nodeId,
      revision,
      basis,
      runtime,
      vocabulary,
      profile,
      markers,
      markTokens: marks,
      texts: new TokenTexts(model, marks),
      prompts,
      grammars: new GrammarCache(grammarCompiler(llama), this.#work, this.#clock),
      undeclared: this.#options.undeclaredProperties ? "any" : "declared",
      grammarStates: grammarStates(runtime.library, llama, model),
      work: this.#work,
      samplingDefaults: samplingDefaults(metadata.general),
      slots,
      leases: new Set(),
      queue,
      steps,
      turns,
      clock: this.#clock,
    };
    return {
      parts,
      notes: [...runtime.notes, ...familyNotes],
      described: describedOf(parts, source),
      engineVersion: `llama.cpp ${llama.llamaCppRelease.release}; ${runtime.setup}`,
      stopBeat: startBeat(parts),
    };
  }
}

function describedOf(parts: EngineParts, template: string): DescribedModel {
  const { revision, runtime, prompts, slots, profile, markers, grammarStates } = parts;
  const { contextWindow } = runtime;
  const { longestTokenBytes } = prompts;
  const continues = grammarStates.canTake;
  return { revision, contextWindow, longestTokenBytes, slots: slots.count, template, profile, markers, continues };
}

/** Throws `EngineError` ENGINE_DOWN if its file cannot be read, or if there is none and no code writes prompts. */
async function templateSource(
  path: string | undefined,
  ofModel: string | undefined,
  hasRenderer: boolean,
): Promise<string> {
  if (path !== undefined)
    return await readFile(path, "utf8").catch((cause: unknown) => {
      throw new EngineError("ENGINE_DOWN", `backend.templatePath: ${path} cannot be read.`, {}, cause);
    });
  if (ofModel !== undefined || hasRenderer) return ofModel ?? "";
  throw new EngineError(
    "ENGINE_DOWN",
    "The model file holds no chat template: name a file with one in backend.templatePath (npm start: --chat-template).",
  );
}

type Family = {
  readonly profile: ModelProfile;
  readonly markers: OutputMarkers;
  readonly familyNotes: readonly string[];
};

/** Returns the configured profile, or the fitting one. The operator's own template goes before the family's code. */
function familyOf(
  configured: ModelProfile | undefined,
  { architecture, name = "" }: { readonly architecture: string; readonly name?: string | undefined },
  template: string,
  vocabulary: Vocabulary,
  isOperators: boolean,
): Family {
  const { profile: found, fits } = configured
    ? { profile: configured, fits: true }
    : chooseProfile({ architecture, name, template });
  const profile = isOperators ? { ...found, renderer: undefined } : found;
  if (profile.renderer) {
    const { reasoning, toolCall, text } = profile;
    return { profile, markers: { reasoning, toolCall, text }, familyNotes: [] };
  }
  const markers = usableMarkers(profile, template, (mark) => withoutTokens(mark, vocabulary));
  const family = JSON.stringify(profile.family);
  const lost = markers.reasoning ? "" : ": reasoning comes out as text";
  const unfitting = `no profile fits the chat template of the model's file, which is taken for one of ${family}${lost}; backend.profile may name one`;
  const familyNotes = fits ? [] : [unfitting];
  const showsTools = /\btools\b/.test(template);
  if (showsTools && markers.toolCall && !profile.toolsAsText) return { profile, markers, familyNotes };
  const generic = withGenericCalls(profile);
  const why = showsTools ? `does not write calls like ${family}` : "has no tools";
  return {
    profile: generic,
    markers: { ...markers, toolCall: generic.toolCall },
    familyNotes: [
      ...familyNotes,
      `the chat template of the model's file ${why}: tools, calls and results are written as text, in a generic form`,
    ],
  };
}

function promptFormat(
  source: string,
  { controlTokens, bosText: bosToken, eosText: eosToken, cutsAtWords }: Vocabulary,
  profile: ModelProfile,
  markers: OutputMarkers,
): PromptFormat {
  return {
    source,
    bosToken,
    eosToken,
    controlTokens: controlTokens.tokens,
    ...familyFormat(profile, markers),
    maxUnits: PORTION_UNITS,
    cutsAtWords,
  };
}

function newEncoder(options: PromptEncoderOptions): PromptEncoder {
  try {
    return new PromptEncoder(options);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : "";
    throw new EngineError("ENGINE_DOWN", `The chat template of the model file cannot be run: ${why}.`, {}, cause);
  }
}

/** Heartbeats pause while a step makes no progress: a stuck engine goes silent. */
function startBeat({ steps, queue, clock }: EngineParts): () => void {
  let last = steps.done;
  const beat = () => {
    if (steps.done !== last || steps.inFlight === 0) queue.beat();
    last = steps.done;
    stop = clock.after(BEAT_MS, beat);
  };
  let stop = clock.after(BEAT_MS, beat);
  return () => stop();
}

function threadsNote(count: number): string {
  return `the number of threads that compute is now ${count}: it follows the cores that they get`;
}
