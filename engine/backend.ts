import type * as z from "zod";
import type {
  CountTokensRequest,
  GenerateRequest,
  GenerateResponse,
} from "../proto/gen/svc/inference/v1/inference_service.ts";
import type { EngineKind, ModelDescription } from "../proto/gen/svc/inference/v1/node_service.ts";
import type { PrefillSpeed } from "./backends/prefill-speed.ts";
import type { CallerWork } from "./caller-work/caller-work.ts";
import type { HeldPrefixes } from "./prefixes/held-prefixes.ts";

export type BackendDescription = {
  readonly engineKind: EngineKind;
  /** Empty if the engine reports no version. */
  readonly engineVersion: string;
  /** The sampling parameters that the node sends where a request has none; absent where the engine has its own. */
  readonly samplingDefaults?: Readonly<Record<string, unknown>> | undefined;
  readonly models: readonly ModelDescription[];
};

/** The step counter of an engine. The watchdog distinguishes a stalled engine from an idle one with it. */
export type EngineSteps = {
  /** The number of steps so far. Only a change has meaning. */
  readonly made: number;
  /** The generations that hold a slot and wait for their next step; those behind a slow reader do not. */
  readonly inFlight: number;
  /** The milliseconds that one step may take before its age counts, as engines may compile. Default: 0. */
  readonly stepTimeoutMs?: number;
  /** Whether the engine has ended or is still loading. Default: false. */
  readonly down?: boolean;
  /** Whether the engine owes a step and answers nothing at all, as when it is frozen. Default: false. */
  readonly silent?: boolean;
  /** The milliseconds that the first step after a start may take. Absent once a step was made. */
  readonly startTimeoutMs?: number;
};

/** The load of a backend at one moment. All counts are of this process. Absent values are unknown to the backend. */
export type BackendLoad = {
  readonly slots: number;
  readonly busySlots: number;
  readonly waiting: number;
  /** Absent: the watchdog does not watch this engine. */
  readonly steps?: EngineSteps | undefined;
  /** The passes over the weights so far: those of steps, and those made because running sequences lay apart. */
  readonly passes?: { readonly step: number; readonly gap: number } | undefined;
  /** The fraction of the KV cache that running generations use, from 0 to 1. */
  readonly kvUse?: number | undefined;
  readonly kvTokensUsed?: number | undefined;
  readonly kvTokensTotal?: number | undefined;
  /** The memory of the KV cache, and what of it holds tokens, in bytes. */
  readonly kvMemory?: { readonly reserved: number; readonly held: number } | undefined;
  /** The number of uncached prompt tokens that running and waiting generations have yet to prefill. */
  readonly queuedUncachedTokens?: number;
  readonly observedRetentionSeconds?: number | undefined;
  /** Whether prompts are rendered in the node beside an engine; absent where nothing else could. */
  readonly ownRendering?: boolean;
  /** The tokens of prompts so far: of known segments, and of those that were tokenized. */
  readonly promptTokens?: { readonly known: number; readonly tokenized: number };
};

/**
 * The seam to an engine. One backend serves one checkpoint under one or more model ids. Implementations own their
 * scheduling. The caller owns the call: leaving the iteration or aborting the signal stops the work and frees its
 * resources.
 */
export interface Backend {
  /** Whether an answer that violates a `strict` schema fails with ENGINE_ERROR. Default: false; it is counted. */
  readonly holdsStrict?: boolean;
  /** The cached prefixes, by the digests of requests, of models with CAPABILITY_PREFIX_EVENTS. */
  readonly prefixes?: HeldPrefixes | undefined;
  /** The most megabytes that the node keeps of messages of prompts. Default: 0, none. */
  readonly promptMegabytes?: number;
  /** The prefill speed, which the node measures by the timings of generations. Absent: the backend does not use it. */
  readonly prefillSpeed?: PrefillSpeed;
  /**
   * Loads and warms up the model; the backend serves once this resolves. Rejects if the backend can never serve.
   * Aborting `signal` cancels the load.
   */
  start(signal: AbortSignal): Promise<void>;
  /** Returns the engine and its models. The list of models may be empty until `start` has resolved. */
  describe(): BackendDescription;
  /** Returns warnings about the started backend for the log, one sentence each. Absent: the backend never has any. */
  startNotes?(): readonly string[];
  /** Set by the node: takes a warning for the log, one sentence. Absent: the backend has none while it runs. */
  onNote?: (note: string) => void;
  /** Set by the node: takes the part of the weights that is loaded, from 0 to 1. Absent: the backend loads none. */
  onLoad?: (part: number) => void;
  /** Returns the current load. Called several times a second; must not block. */
  load(): BackendLoad;
  /**
   * Runs one generation: `started`, then blocks, then `finished`; `progress` may come anywhere before `finished`, and
   * also first. Each response holds the output of one step: events, tokens, or both. A model with
   * CAPABILITY_CONTINUATION reports all its tokens, also for requests that are not resumable: each token in the
   * response of the first event that it contributed to, or before. The consumer paces the generation: the backend runs
   * at most one step ahead. Throws `EngineError`.
   */
  generate(request: GenerateRequest, signal: AbortSignal): AsyncGenerator<GenerateResponse, void, void>;
  /** Has the cache of the prompt that ends at a digest go first. Absent: the engine evicts in its own order. */
  endLease?(digest: string): void;
  /** Resolves to the number of tokens in the fully rendered prompt. Takes no slot. Rejects with `EngineError`. */
  countTokens(request: CountTokensRequest, signal: AbortSignal): Promise<number>;
  /** Resolves to the GPU memory in use, in bytes; undefined without a GPU. Absent if the backend cannot report it. */
  gpuMemoryBytes?(): Promise<number | undefined>;
  close(): Promise<void>;
}

export type ServedNode = {
  readonly nodeId: string;
  /** The model ids under which the one checkpoint is served; at least one. */
  readonly models: readonly string[];
};

/** A value of `backend.kind`: the schema of its settings, and the function that creates the backend. */
export type BackendKind<Schema extends z.ZodObject> = {
  /** The literal `kind` in it is the name of the kind. */
  readonly schema: Schema;
  /**
   * Creates a backend that has not been started. It runs the jobs that callers' input causes, apart from generation, on
   * `work`. Throws `ConfigError` for errors that the schema cannot detect, such as a missing file.
   */
  readonly create: (
    config: Readonly<z.output<Schema>>,
    node: ServedNode,
    work: CallerWork,
  ) => Backend | Promise<Backend>;
};
