import type { CallerWork } from "../../../caller-work/caller-work.ts";
import type { LoopTurns } from "../../loop-turns.ts";
import type { EngineHttp } from "../http/engine-http.ts";
import type { EngineCache } from "../kv-events/engine-cache.ts";
import type { RequestSettings } from "../request/request.ts";
import type { EngineFacts } from "../watch/engine-facts.ts";
import type { EngineWatch } from "../watch/engine-watch.ts";

/** The parts of the node that a generation needs. */
export type GenerationParts = {
  readonly nodeId: string;
  readonly http: EngineHttp;
  /** The poller of the engine's load. */
  readonly watch: EngineWatch;
  /** The settings of request translation. */
  readonly settings: RequestSettings;
  readonly facts: EngineFacts;
  /** Whether the engine reports the prompt size before the first piece of the answer. */
  readonly countsAtStart: boolean;
  /** Schedules the writing of large requests on the event loop. */
  readonly turns: LoopTurns;
  /** The worker threads that check large schemas. */
  readonly work: Pick<CallerWork, "run">;
  /** The longest silence of the engine, in milliseconds. */
  readonly silenceMs: number;
  /** The longest time for counting tokens, in milliseconds. */
  readonly countTimeoutMs: number;
  /** Receives faults of this program in parsing engine output. */
  readonly onFault: (thrown: unknown) => void;
  /** Tracks the engine's prefix cache; undefined without KV events. */
  readonly cache: EngineCache | undefined;
  /** Returns the time of a monotonic clock, in milliseconds. */
  readonly nowMs: () => number;
};
