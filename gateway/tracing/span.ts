/** What may stand in an attribute; absent ones are left out. */
export type SpanAttributes = Readonly<Record<string, string | number | readonly string[] | undefined>>;

export type SpanEvent = {
  readonly name: string;
  /** Wall clock, milliseconds since the epoch. */
  readonly atMs: number;
};

/** A finished span, told apart from any SDK: names and numbers of ours only, no text of a request. */
export type Span = {
  readonly name: string;
  readonly kind: "server" | "internal" | "client";
  /** 32 hex digits. */
  readonly traceId: string;
  /** 16 hex digits. */
  readonly spanId: string;
  /** The span above it; undefined for the first of its trace. `remote`: it is another process's. */
  readonly parent: { readonly spanId: string; readonly remote: boolean } | undefined;
  /** Wall clock, milliseconds since the epoch, with fractions. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: SpanAttributes;
  readonly events: readonly SpanEvent[];
  /** Why it failed, a token of ours: its `error.type`. Undefined where it did not. */
  readonly error: string | undefined;
};
