/** A request to a path of the admin listener. */
export type AdminRequest = {
  /** The parameters of the query string. */
  readonly query: URLSearchParams;
  /** The parts of the path that its pattern names. */
  readonly params: Readonly<Record<string, string>>;
};

/** The answer of a path of the admin listener. */
export type AdminReply = {
  /** The HTTP status of the reply. Default: 200. */
  readonly status?: number;
  /** The content type of the reply. Default: plain text. */
  readonly type?: string;
  /** Headers of the reply beside those of every reply. Default: none. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The body of the reply. */
  readonly body: string;
  /** Called when the reply has been sent. Default: no action. */
  readonly afterwards?: () => void;
};

/** One path of the admin listener. */
export type AdminRoute = {
  /** The path as a pattern of Fastify. */
  readonly path: string;
  /**
   * Whether the path reads, with GET, or changes something, with POST only: a link or an image must not drain a
   * gateway.
   */
  readonly does: "reads" | "changes";
  /** Whether the path may be read without proof, as with health. Default: false. */
  readonly open?: boolean;
  readonly help: string;
  /** Answers a request. It must not throw on anything that a caller can send. */
  handle(request: AdminRequest): AdminReply | Promise<AdminReply>;
};

/** Returns a reply with `value` as JSON. */
export function jsonReply(value: unknown): AdminReply {
  return { type: "application/json; charset=utf-8", body: `${JSON.stringify(value, undefined, 1)}\n` };
}

/** The reply to a change that was made, as Envoy answers it. */
export const OK: AdminReply = { body: "OK\n" };

/** Returns a reply of status 400 with a line of text. */
export function badRequest(text: string): AdminReply {
  return { status: 400, body: `${text}\n` };
}

export function wantsJson({ query }: AdminRequest): boolean {
  return query.get("format") === "json";
}
