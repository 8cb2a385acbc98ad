import type { GenerationFacts } from "../calls/generation-log.ts";

/** Where the spans of a node go. */
export type Tracing = {
  /**
   * Takes a generation that is over. Never waits. `traceparent`: as the call brought it, if it did; `endMs`: when it was over,
   * by the wall clock, in milliseconds since the epoch.
   */
  generation(traceparent: unknown, facts: GenerationFacts, endMs: number): void;
  /** Sends what is left, within a bounded time. Never rejects. */
  close(): Promise<void>;
};
