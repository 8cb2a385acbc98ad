import type {
  CountTokensRequest,
  GenerateRequest,
  GenerateResponse,
} from "../proto/gen/svc/inference/v1/inference_service.ts";
import type { EngineKind, ModelDescription } from "../proto/gen/svc/inference/v1/node_service.ts";
import type { HeldPrefixes } from "./prefixes/held-prefixes.ts";

/** What a node tells of the engine behind it. */
export type BackendDescription = {
  /** The kind of engine, as the contract names it. */
  readonly engineKind: EngineKind;
  /** The engine's own version; empty where it tells none. */
  readonly engineVersion: string;
  /** The models that the backend serves; empty while nothing is known of them. */
  readonly models: readonly ModelDescription[];
};

/** The pulse of an engine: with it, a stall is told from an engine that nobody asks for anything. */
export type EngineSteps = {
  /** The number of steps so far. Only its changing means anything. */
  readonly made: number;
  /**
   * The number of generations that hold a slot and have been asked for more: each is owed a step now. What a slow
   * reader holds back does not count.
   */
  readonly inFlight: number;
  /**
   * The time, in milliseconds, that one step may take before its age counts, as that of an engine which may compile in the
   * middle of its work. Default: 0.
   */
  readonly stepTimeoutMs?: number;
  /** Whether the engine is not up: it has ended, or loads. Default: false. */
  readonly down?: boolean;
  /**
   * The time, in milliseconds, that the first step of an engine which has come up may take, as where it compiles. Absent
   * once it has made one.
   */
  readonly startTimeoutMs?: number;
};

/** The load of a backend at one moment. All counts are of this process; what a backend cannot tell it leaves out. */
export type BackendLoad = {
  /** The number of generations that can run at once. */
  readonly slots: number;
  /** The number of slots that generations hold. */
  readonly busySlots: number;
  /** The number of generations that wait for a slot. */
  readonly waiting: number;
  /**
   * The engine's pulse. With it the node is watched: steps in flight of which none is made take the node out of
   * service.
   */
  readonly steps?: EngineSteps;
  /** The share of the KV memory that running generations hold, from 0 to 1. */
  readonly kvUse?: number;
  /** The number of tokens that running generations hold in the KV memory. */
  readonly kvTokensUsed?: number;
  /** The number of tokens that the KV memory holds when full. */
  readonly kvTokensTotal?: number;
  /**
   * The number of prompt tokens that have yet to be prefilled and are in no cache, of generations that run or wait.
   */
  readonly queuedUncachedTokens?: number;
  /** The time for which a prefix lately stayed in the cache before others pushed it out, in seconds. */
  readonly observedRetentionSeconds?: number;
};

/**
 * The seam to an engine. One backend serves one checkpoint under one or more model ids. Implementations own their
 * scheduling; whoever calls owns the call: leaving the iteration or aborting the signal stops the work and frees what
 * it holds.
 */
export interface Backend {
  /**
   * Whether the backend holds answers and arguments to schemas that are `strict`: an answer that breaks its schema is
   * then the backend's fault and ends in ENGINE_ERROR. Default: false, and such an answer is counted only.
   */
  readonly holdsStrict?: boolean;
  /**
   * The prefixes that the cache holds, by the digests of requests. Its models then have CAPABILITY_PREFIX_EVENTS. Absent
   * where the backend cannot tell.
   */
  readonly prefixes?: HeldPrefixes | undefined;
  /**
   * Loads the model and warms it up; once this resolves the backend answers. Rejects when it never will. Aborting
   * `signal` gives the loading up.
   */
  start(signal: AbortSignal): Promise<void>;
  /**
   * Returns the engine and its models. Before `start` has resolved the models may be unknown, and their list is then
   * empty.
   */
  describe(): BackendDescription;
  /**
   * Returns, once it has started, what an operator should know of how it serves the model: a sentence each, for the log.
   * Absent: nothing ever is.
   */
  startNotes?(): readonly string[];
  /** Returns the load now. It is asked several times a second, and must not wait. */
  load(): BackendLoad;
  /**
   * Runs one generation: `started`, then blocks, then `finished`; `progress` may come anywhere before `finished`, and
   * also first. Each response holds what one step produced: events, tokens, or both. A model that is described with
   * CAPABILITY_CONTINUATION has all its tokens told, whether or not the request is resumable: each in the response of
   * the first event that came about by it, or before. The consumer's pace is the pace of the generation: no more
   * than one step is made while nobody asks. Throws `EngineError`.
   */
  generate(request: GenerateRequest, signal: AbortSignal): AsyncGenerator<GenerateResponse, void, void>;
  /** Resolves to the number of tokens in the fully rendered prompt. Takes no slot. Rejects with `EngineError`. */
  countTokens(request: CountTokensRequest, signal: AbortSignal): Promise<number>;
  /**
   * Resolves to the GPU memory in use, in bytes; undefined where there is no GPU. Absent where the backend cannot tell.
   */
  gpuMemoryBytes?(): Promise<number | undefined>;
  /** Ends what runs and frees what the backend holds. */
  close(): Promise<void>;
}
