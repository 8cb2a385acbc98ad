import type { Span } from "./span.ts";

/** Where the spans of a gateway go. */
export type Tracing = {
  /** Whether a trace that its caller does not sample shall be: by its id, so that everyone decides alike. */
  headSampler(traceId: string): boolean;
  /** Takes the spans of one request. Never waits: what finds no room is dropped. */
  export(spans: readonly Span[]): void;
  /** Sends what is left, within a bounded time. Never rejects. */
  close(): Promise<void>;
};
