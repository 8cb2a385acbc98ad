export type AdminRequest = {
  readonly query: URLSearchParams;
  readonly params: Readonly<Record<string, string>>;
  /** The address that the request's connection comes from. */
  readonly from: string;
};

export type AdminReply = {
  /** Default: 200. */
  readonly status?: number;
  /** Default: plain text. */
  readonly type?: string;
  /** Headers beside those of every reply. Default: none. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
  /** Called when the reply has been sent. Default: no action. */
  readonly afterwards?: () => void;
};

export type AdminRoute = {
  readonly path: string;
  /** With GET, or with POST only: a link or an image must not drain a gateway. */
  readonly does: "reads" | "changes";
  readonly help: string;
  /** Answers a request. It must not throw, whatever a caller sends. */
  handle(request: AdminRequest): AdminReply | Promise<AdminReply>;
};

export function reads(path: string, help: string, handle: AdminRoute["handle"]): AdminRoute {
  return { path, does: "reads", help, handle };
}

export function changes(path: string, help: string, handle: AdminRoute["handle"]): AdminRoute {
  return { path, does: "changes", help, handle };
}

export function jsonReply(value: unknown): AdminReply {
  return { type: "application/json; charset=utf-8", body: `${JSON.stringify(value, undefined, 1)}\n` };
}

/** The reply to an applied change, the same as Envoy's. */
export const OK: AdminReply = { body: "OK\n" };

export function badRequest(text: string): AdminReply {
  return { status: 400, body: `${text}\n` };
}

export function wantsJson({ query }: AdminRequest): boolean {
  return query.get("format") === "json";
}
