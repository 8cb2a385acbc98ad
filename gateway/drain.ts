import type { Server } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Logger } from "pino";
import { sleep, untilAborted } from "../deploy/runtime/time/abort.ts";
import type { Clock } from "../deploy/runtime/time/clock.ts";
import type { GatewayConfig } from "./config.ts";
import type { GrpcListener } from "./grpc/grpc-listener.ts";
import type { SocketTable } from "./http/connection/sockets.ts";
import type { SocketUpgrades } from "./http/websocket/socket-upgrades.ts";
import type { Lifecycle } from "./lifecycle.ts";

/** Milliseconds for the last frame of a stream that is being ended. */
const LAST_FRAME_MS = 1_000;

export type DrainDeps = {
  /** The durations of draining, in milliseconds. */
  readonly config: Pick<GatewayConfig, "drainGraceMs" | "drainTimeoutMs">;
  /** Gives the orders to drain and to stop. */
  readonly lifecycle: Lifecycle;
  readonly server: Server;
  readonly sockets: SocketTable;
  /** Default: none are accepted. */
  readonly webSockets?: Pick<SocketUpgrades, "drain"> | undefined;
  /** Default: none is configured. */
  readonly grpc?: Pick<GrpcListener, "announceDrain" | "drain" | "close"> | undefined;
  readonly clock: Clock;
  readonly log: Logger;
};

/**
 * Waits for the orders to drain and to stop, and executes them. `/ready` fails first, and requests are served as before
 * for `drainGraceMs`, so that load balancers in front can react; then the listener and idle connections close. No
 * connection is open when it resolves.
 */
export async function drainOnOrder({
  config,
  lifecycle,
  server,
  sockets,
  webSockets,
  grpc,
  clock,
  log,
}: DrainDeps): Promise<void> {
  await untilAborted(lifecycle.drain);
  const { drainGraceMs, drainTimeoutMs } = config;
  log.info({ connections: sockets.open, graceMs: lifecycle.graceful ? drainGraceMs : 0 }, "draining");
  sockets.announceDrain();
  webSockets?.drain(lifecycle.graceful ? drainGraceMs : 0);
  grpc?.announceDrain();
  if (lifecycle.graceful) await sleep(clock, drainGraceMs, lifecycle.hardStop);
  // Requests that have arrived are read first: their connections look idle, and Node closes idle ones at once. The
  // first turn may have read the connections already.
  await nextTurn();
  await nextTurn();
  server.close();
  log.info({ connections: sockets.open, idle: sockets.idle }, "listener closed");
  const drained = Promise.all([sockets.drain(), grpc?.drain()]);
  await untilAborted(lifecycle.stop);
  await Promise.race([drained, sleep(clock, drainTimeoutMs, lifecycle.hardStop)]);
  // Running answers end in their format's error frame; then open connections are closed.
  lifecycle.quitNow();
  await Promise.race([drained, sleep(clock, LAST_FRAME_MS, new AbortController().signal)]);
  sockets.destroyAll();
  await grpc?.close();
}
