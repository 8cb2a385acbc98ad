import type { GenerationFacts } from "../calls/generation-log.ts";

/** Exports the spans of a node. */
export type Tracing = {
  /**
   * Records a finished generation. Never waits. `traceparent` is the header of the call, undefined if absent; `endMs`
   * is the end of the generation in wall-clock milliseconds since the epoch.
   */
  generation(traceparent: unknown, facts: GenerationFacts, endMs: number): void;
  /** Sends the remaining spans within a bounded time. Never rejects. */
  close(): Promise<void>;
};
