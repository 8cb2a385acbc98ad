import type { GenerationFacts } from "../calls/generation-log.ts";

/** Takes the spans of a node to where they are looked at. */
export type Tracing = {
  /**
   * Takes a generation that is over. Never waits. `traceparent` is the header as the call brought it, undefined if it
   * brought none; `endMs` is when the generation was over by the wall clock, in milliseconds since the epoch.
   */
  generation(traceparent: unknown, facts: GenerationFacts, endMs: number): void;
  /** Sends the spans that are left, within a bounded time. Never rejects. */
  close(): Promise<void>;
};
