/** The attributes of a span by name. Absent ones are left out. */
export type SpanAttributes = Readonly<Record<string, string | number | readonly string[] | undefined>>;

/** A moment within a span. */
export type SpanEvent = {
  /** The name of the event. */
  readonly name: string;
  /** The wall clock at that moment, in milliseconds since the epoch. */
  readonly atMs: number;
};

/** A finished span, kept apart from any SDK. It holds names and numbers of ours only, no text of a request. */
export type Span = {
  /** The name of the span. */
  readonly name: string;
  /** The kind of the span: the request itself, work within the gateway, or a call to an engine. */
  readonly kind: "server" | "internal" | "client";
  /** The id of the trace, 32 hex digits. */
  readonly traceId: string;
  /** The id of the span, 16 hex digits. */
  readonly spanId: string;
  /** The span above this one; undefined for the first of its trace. `remote` says that it is another process's. */
  readonly parent: { readonly spanId: string; readonly remote: boolean } | undefined;
  /** The wall clock at the start, in milliseconds since the epoch, with fractions. */
  readonly startMs: number;
  /** The wall clock at the end, in milliseconds since the epoch, with fractions. */
  readonly endMs: number;
  /** The attributes of the span. */
  readonly attributes: SpanAttributes;
  /** The moments within the span, in their order. */
  readonly events: readonly SpanEvent[];
  /** The `error.type` of the span, a token of ours; undefined where it did not fail. */
  readonly error: string | undefined;
};
