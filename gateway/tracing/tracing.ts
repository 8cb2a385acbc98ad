/** The attributes of a span by name. Absent ones are left out. */
export type SpanAttributes = Readonly<Record<string, string | number | readonly string[] | undefined>>;

/** A moment within a span. */
export type SpanEvent = {
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly atMs: number;
};

/** A finished span, kept apart from any SDK. It holds names and numbers of ours only, no text of a request. */
export type Span = {
  readonly name: string;
  /** The request, work within the gateway, or a call to an engine. */
  readonly kind: "server" | "internal" | "client";
  /** 32 hex digits. */
  readonly traceId: string;
  /** 16 hex digits. */
  readonly spanId: string;
  /** The span above this one; undefined for the first of its trace. `remote` says that it is another process's. */
  readonly parent: { readonly spanId: string; readonly remote: boolean } | undefined;
  /** Milliseconds since the epoch, with fractions, as the end. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: SpanAttributes;
  readonly events: readonly SpanEvent[];
  /** The `error.type` of the span, a token of ours; undefined where it did not fail. */
  readonly error: string | undefined;
};

/** Takes the spans of a gateway to where they are looked at. */
export type Tracing = {
  /**
   * Returns whether a trace that its caller does not sample is to be sampled: by its id, so that every process decides
   * alike.
   */
  headSampler(traceId: string): boolean;
  /** Takes the spans of one request. It never waits: spans beyond the queue are dropped. */
  export(spans: readonly Span[]): void;
  /** Sends the remaining spans, within a bounded time. It never rejects. */
  close(): Promise<void>;
};
