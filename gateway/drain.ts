import type { Server } from "node:net";
import type { Logger } from "pino";
import type { Clock } from "../deploy/runtime/time/clock.ts";
import { sleep } from "../deploy/runtime/time/sleep.ts";
import type { GatewayConfig } from "./config/gateway-config.ts";
import type { SocketTable } from "./http/connection/sockets.ts";
import type { Lifecycle } from "./lifecycle.ts";

/** What a stream that is told to end needs to write its last frame. */
const LAST_FRAME_MS = 1_000;

export type DrainDeps = {
  readonly config: Pick<GatewayConfig, "drainGraceMs" | "drainTimeoutMs">;
  readonly lifecycle: Lifecycle;
  /** The public listener. */
  readonly server: Server;
  readonly sockets: SocketTable;
  readonly clock: Clock;
  readonly log: Logger;
};

/** Waits for the order to drain and for the one to stop, and obeys them: when it resolves no connection is open. */
export async function drainWhenTold({ config, lifecycle, server, sockets, clock, log }: DrainDeps): Promise<void> {
  await aborted(lifecycle.drain);
  log.info({ connections: sockets.open, graceful: lifecycle.graceful }, "draining");
  if (lifecycle.graceful) {
    sockets.announceDrain();
    await sleep(clock, config.drainGraceMs, lifecycle.stop);
  }
  server.close();
  const drained = sockets.drain();
  await aborted(lifecycle.stop);
  await Promise.race([drained, sleep(clock, config.drainTimeoutMs, lifecycle.hardStop)]);
  // Whatever still runs ends in its format's error frame; then the rest is cut.
  lifecycle.quitNow();
  await Promise.race([drained, sleep(clock, LAST_FRAME_MS, new AbortController().signal)]);
  sockets.destroyAll();
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
