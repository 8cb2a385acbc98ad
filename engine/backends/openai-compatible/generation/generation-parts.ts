import type { EngineHttp } from "../http/engine-http.ts";
import type { RequestSettings } from "../request/request.ts";
import type { EngineFacts } from "../watch/engine-facts.ts";
import type { EngineWatch } from "../watch/engine-watch.ts";

/** What one generation needs of the node. */
export type GenerationParts = {
  /** The name of the node. */
  readonly nodeId: string;
  /** The engine's HTTP server. */
  readonly http: EngineHttp;
  /** What watches the engine's load. */
  readonly watch: EngineWatch;
  /** What the node knows about its engine when it writes requests. */
  readonly settings: RequestSettings;
  /** What the engine said of itself. */
  readonly facts: EngineFacts;
  /** Whether the engine tells the size of the prompt before the first piece of the answer. */
  readonly countsAtStart: boolean;
  /** The longest time that the engine may say nothing, in milliseconds. */
  readonly silenceMs: number;
  /** The longest time that counting tokens may take, in milliseconds. */
  readonly countTimeoutMs: number;
  /** A monotonic clock in milliseconds. */
  readonly nowMs: () => number;
};
