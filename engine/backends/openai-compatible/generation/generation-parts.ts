import type { CallerWork } from "../../../caller-work/caller-work.ts";
import type { LoopTurns } from "../../loop-turns.ts";
import type { EngineHttp } from "../http/engine-http.ts";
import type { EngineCache } from "../kv-events/engine-cache.ts";
import type { RequestSettings } from "../request/request.ts";
import type { EngineFacts } from "../watch/engine-facts.ts";
import type { EngineWatch } from "../watch/engine-watch.ts";

export type GenerationParts = {
  readonly nodeId: string;
  readonly http: EngineHttp;
  readonly watch: EngineWatch;
  readonly settings: RequestSettings;
  readonly facts: EngineFacts;
  /** Whether the engine reports the prompt size before the first piece of the answer. */
  readonly countsAtStart: boolean;
  /** Schedules the writing of large requests on the event loop. */
  readonly turns: LoopTurns;
  readonly work: Pick<CallerWork, "run">;
  /** The longest silence of the engine, in milliseconds. */
  readonly silenceMs: number;
  /** The longest time for counting tokens, in milliseconds. */
  readonly countTimeoutMs: number;
  readonly onFault: (thrown: unknown) => void;
  /** Tracks the engine's prefix cache; undefined without KV events. */
  readonly cache: EngineCache | undefined;
  readonly nowMs: () => number;
};
