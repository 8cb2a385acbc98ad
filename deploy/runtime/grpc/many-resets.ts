import type { Server } from "@grpc/grpc-js";

/**
 * What a connection may bring of resets of streams at once, and in a second. By itself a server of Node takes 1,000 and
 * 33 a second and ends a connection that brings more, with all calls on it.
 */
const MANY_RESETS = { streamResetBurst: 1_000_000, streamResetRate: 100_000 } as const;

/**
 * Has a server take as many resets of streams as come, where Node lets it (from version 22 on; a connection to an older
 * one keeps to what that takes). The connections of our servers carry the calls of many callers, those of gateways and of
 * an edge, and one of them who opens calls and leaves them must not end those of the others; what a call costs is charged
 * to whoever makes it, and the gateway bounds what one key resets. grpc-js has no setting for it. To be called before the server listens.
 */
export function takesManyResets(server: Server): void {
  const options: unknown = Reflect.get(server, "commonServerOptions");
  if (options !== null && typeof options === "object") Object.assign(options, MANY_RESETS);
}
