import type { CountTokensRequest, Event, GenerateRequest } from "../proto/gen/svc/inference/v1/inference_service.ts";
import type { EngineKind, ModelDescription } from "../proto/gen/svc/inference/v1/node_service.ts";

/** What a node tells about the engine behind it. */
export type BackendDescription = {
  readonly engineKind: EngineKind;
  readonly engineVersion: string;
  readonly models: readonly ModelDescription[];
};

/** The engine's own pulse: with it, a stall is told from an engine that nobody asks for anything. */
export type EngineSteps = {
  /** Steps so far; only its moving means anything. */
  readonly made: number;
  /** Generations that have been asked for more and hold a slot: steps that are owed now. What a slow reader holds back is not. */
  readonly inFlight: number;
};

/** A moment's load; all counts are of this process. What a backend cannot tell it leaves out. */
export type BackendLoad = {
  readonly slots: number;
  readonly busySlots: number;
  readonly waiting: number;
  /** With it the node is watched: steps in flight of which none is made take the node out of service. */
  readonly steps?: EngineSteps;
  /** Share of the KV memory that running generations hold, 0 to 1. */
  readonly kvUse?: number;
  readonly kvTokensUsed?: number;
  readonly kvTokensTotal?: number;
  /** Prompt tokens that wait for their prefill and are in no cache. */
  readonly queuedUncachedTokens?: number;
  /** How long a prefix lately stayed in the cache before others pushed it out. */
  readonly observedRetentionSeconds?: number;
};

/**
 * The seam to an engine. One value serves one checkpoint under one or more model ids.
 *
 * Implementations own their scheduling; whoever calls owns the call: leaving the iteration or aborting the signal stops
 * the work and frees what it holds.
 */
export interface Backend {
  /**
   * Whether the backend holds answers and arguments to schemas that are `strict`: one that breaks its schema is then the
   * backend's fault and ends in ENGINE_ERROR. Default: false, and it is counted only.
   */
  readonly holdsStrict?: boolean;
  /** Loads and warms up; when it returns the backend answers. Throws when it never will. */
  start(signal: AbortSignal): Promise<void>;
  /** Before `start` has returned, what the models are like may be unknown: the list is then empty. */
  describe(): BackendDescription;
  load(): BackendLoad;
  /**
   * One generation: `started`, then blocks, then `finished`; `progress` anywhere before the last, also first. Each array
   * holds what one step produced and is never empty. The consumer's pace is the generation's pace: nothing is produced
   * while nobody asks. Throws `EngineError`.
   */
  generate(request: GenerateRequest, signal: AbortSignal): AsyncGenerator<readonly Event[], void, void>;
  /** Tokens of the fully rendered prompt. Takes no slot. */
  countTokens(request: CountTokensRequest, signal: AbortSignal): Promise<number>;
  /** GPU memory in use, in bytes; `undefined` where there is none. Absent: the backend cannot tell. */
  gpuMemoryBytes?(): Promise<number | undefined>;
  close(): Promise<void>;
}
