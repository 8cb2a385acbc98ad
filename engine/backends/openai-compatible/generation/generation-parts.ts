import type { EngineHttp } from "../http/engine-http.ts";
import type { RequestSettings } from "../request/request.ts";
import type { EngineFacts } from "../watch/engine-facts.ts";
import type { EngineWatch } from "../watch/engine-watch.ts";

/** What one generation needs of the node. */
export type GenerationParts = {
  readonly nodeId: string;
  readonly http: EngineHttp;
  readonly watch: EngineWatch;
  readonly settings: RequestSettings;
  readonly facts: EngineFacts;
  /** The engine tells the size of the prompt before the first piece of the answer. */
  readonly countsAtStart: boolean;
  /** How long the engine may say nothing, in milliseconds. */
  readonly silenceMs: number;
  /** How long it may take to count tokens, in milliseconds. */
  readonly countTimeoutMs: number;
  /** A monotonic clock. */
  readonly nowMs: () => number;
};
