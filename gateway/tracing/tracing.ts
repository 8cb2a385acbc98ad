import type { Span } from "./span.ts";

/** Takes the spans of a gateway to where they are looked at. */
export type Tracing = {
  /**
   * Returns whether a trace that its caller does not sample is to be sampled: by its id, so that every process decides
   * alike.
   */
  headSampler(traceId: string): boolean;
  /** Takes the spans of one request. It never waits: what finds no room is dropped. */
  export(spans: readonly Span[]): void;
  /** Sends the remaining spans, within a bounded time. It never rejects. */
  close(): Promise<void>;
};
