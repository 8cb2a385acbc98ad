import type { Server } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Logger } from "pino";
import { untilAborted } from "../deploy/runtime/time/abort.ts";
import type { Clock } from "../deploy/runtime/time/clock.ts";
import { sleep } from "../deploy/runtime/time/sleep.ts";
import type { GatewayConfig } from "./config.ts";
import type { GrpcListener } from "./grpc/grpc-listener.ts";
import type { SocketTable } from "./http/connection/sockets.ts";
import type { Lifecycle } from "./lifecycle.ts";

/** The time that a stream which is told to end has for its last frame, in milliseconds. */
const LAST_FRAME_MS = 1_000;

/** What draining works with. */
export type DrainDeps = {
  /** The times that draining takes, in milliseconds. */
  readonly config: Pick<GatewayConfig, "drainGraceMs" | "drainTimeoutMs">;
  /** The lifecycle of the gateway, which gives the orders to drain and to stop. */
  readonly lifecycle: Lifecycle;
  /** The public listener. */
  readonly server: Server;
  /** The connections of the public listener. */
  readonly sockets: SocketTable;
  /** The listener for gRPC clients. Default: none is configured. */
  readonly grpc?: Pick<GrpcListener, "announceDrain" | "drain" | "close"> | undefined;
  /** The clock that the times are measured by. */
  readonly clock: Clock;
  /** The log that says that the gateway drains. */
  readonly log: Logger;
};

/**
 * Waits for the order to drain and for the one to stop, and obeys them. Whoever balances load in front sees `/ready`
 * fail first, and has `drainGraceMs` for that, in which everything is served as before; only then does the listener
 * close, and idle connections with it. When it resolves no connection is open.
 */
export async function drainWhenTold({
  config,
  lifecycle,
  server,
  sockets,
  grpc,
  clock,
  log,
}: DrainDeps): Promise<void> {
  await untilAborted(lifecycle.drain);
  const { drainGraceMs, drainTimeoutMs } = config;
  log.info({ connections: sockets.open, graceMs: lifecycle.graceful ? drainGraceMs : 0 }, "draining");
  sockets.announceDrain();
  grpc?.announceDrain();
  if (lifecycle.graceful) await sleep(clock, drainGraceMs, lifecycle.hardStop);
  // A request that has arrived by now is read first: its connection only looks idle, and Node closes those at once. The
  // first turn may have read its connections already.
  await nextTurn();
  await nextTurn();
  server.close();
  log.info({ connections: sockets.open, idle: sockets.idle }, "listener closed");
  const drained = Promise.all([sockets.drain(), grpc?.drain()]);
  await untilAborted(lifecycle.stop);
  await Promise.race([drained, sleep(clock, drainTimeoutMs, lifecycle.hardStop)]);
  // Whatever still runs ends in its format's error frame; then the rest is cut.
  lifecycle.quitNow();
  await Promise.race([drained, sleep(clock, LAST_FRAME_MS, new AbortController().signal)]);
  sockets.destroyAll();
  await grpc?.close();
}
