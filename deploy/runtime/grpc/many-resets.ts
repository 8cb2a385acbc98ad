import type { Server } from "@grpc/grpc-js";

/**
 * Allowed stream resets of a connection: burst, and rate per second. A Node server allows 1,000 and 33 a second by
 * default, and closes a connection with more, including all its calls.
 */
const MANY_RESETS = { streamResetBurst: 1_000_000, streamResetRate: 100_000 } as const;

/**
 * Raises the limit of stream resets of a server, if Node supports it (from version 22 on; an older server keeps its
 * limit). Connections from gateways and edge proxies carry the calls of many callers, and a caller who cancels many
 * calls must not end those of the others; each call is charged to its caller, and the gateway bounds the resets of one
 * key. grpc-js has no setting for it. To be called before the server listens.
 */
export function takesManyResets(server: Server): void {
  const options: unknown = Reflect.get(server, "commonServerOptions");
  if (options !== null && typeof options === "object") Object.assign(options, MANY_RESETS);
}
