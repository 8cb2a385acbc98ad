import type { CallerWork } from "../../../caller-work/caller-work.ts";
import type { LoopTurns } from "../../loop-turns.ts";
import type { EngineHttp } from "../http/engine-http.ts";
import type { EngineCache } from "../kv-events/engine-cache.ts";
import type { RequestSettings } from "../request/request.ts";
import type { EngineFacts } from "../watch/engine-facts.ts";
import type { EngineWatch } from "../watch/engine-watch.ts";

/** The parts of the node that one generation needs. */
export type GenerationParts = {
  /** The name of the node. */
  readonly nodeId: string;
  /** The engine's HTTP server. */
  readonly http: EngineHttp;
  /** The watch over the engine's load. */
  readonly watch: EngineWatch;
  /** The settings by which the node writes requests for its engine. */
  readonly settings: RequestSettings;
  /** The facts that the engine said of itself. */
  readonly facts: EngineFacts;
  /** Whether the engine tells the size of the prompt before the first piece of the answer. */
  readonly countsAtStart: boolean;
  /** The turns of the event loop in which large requests are written. */
  readonly turns: LoopTurns;
  /** Looks at large schemas, on threads of its own. */
  readonly work: Pick<CallerWork, "run">;
  /** The longest time that the engine may say nothing, in milliseconds. */
  readonly silenceMs: number;
  /** The longest time that counting tokens may take, in milliseconds. */
  readonly countTimeoutMs: number;
  /** Hears of a fault of this program in reading what the engine wrote. */
  readonly onFault: (thrown: unknown) => void;
  /** Follows what the engine holds in its prefix cache; undefined where nobody does. */
  readonly cache: EngineCache | undefined;
  /** Returns the time of a monotonic clock, in milliseconds. */
  readonly nowMs: () => number;
};
