import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import { StopOrders } from "../../../deploy/runtime/process/stop-orders.ts";
import { drainOnOrder } from "../../../gateway/drain.ts";
import { SocketTable } from "../../../gateway/http/connection/sockets.ts";
import { Lifecycle } from "../../../gateway/lifecycle.ts";
import { head, RawConnection } from "../../support/http/raw-http.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

/* The drain of a gateway, with a virtual clock, over real connections. */

const GRACE_MS = 10_000;
const DRAIN_MS = 600_000;
const GET = head("GET / HTTP/1.1", "host: x");

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function draining() {
  const running: ServerResponse[] = [];
  const server = createServer((request, response) => {
    if (request.url === "/wait") running.push(response);
    else response.end("ok");
  });
  servers.push(server);
  server.keepAliveTimeout = 0;
  const sockets = new SocketTable(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const clock = new VirtualClock();
  const lifecycle = new Lifecycle(new StopOrders(() => clock.nowMs()));
  lifecycle.listening();
  const config = { drainGraceMs: GRACE_MS, drainTimeoutMs: DRAIN_MS };
  const log = pino({ level: "silent" });
  const drained = drainOnOrder({ config, lifecycle, server, sockets, clock, log });
  const { port } = server.address() as AddressInfo;
  const open = () => RawConnection.open(port);
  const waiting = async () => {
    const connection = (await open()).write(head("GET /wait HTTP/1.1", "host: x"));
    const before = running.length;
    while (running.length === before) await new Promise((resolve) => setTimeout(resolve, 1));
    return { connection, response: running.at(-1) as ServerResponse };
  };
  return { server, clock, lifecycle, open, waiting, drained };
}

async function keptConnection(open: () => Promise<RawConnection>): Promise<RawConnection> {
  const connection = await open();
  expect((await connection.write(GET).reply()).headers.get("connection")).toBe("keep-alive");
  return connection;
}

test("a draining gateway serves requests during its grace, with connection: close", async () => {
  const { server, clock, lifecycle, open, drained } = await draining();
  const kept = await keptConnection(open);
  const idle = await keptConnection(open);
  lifecycle.quit();
  await clock.advance(GRACE_MS - 1);
  for (const connection of [kept, await open()]) {
    const reply = await connection.write(GET).reply();
    expect([reply.status, reply.headers.get("connection")]).toEqual([200, "close"]);
  }
  expect([server.listening, idle.closed]).toEqual([true, false]);
  await clock.advance(1);
  await idle.untilClosed();
  expect(server.listening).toBe(false);
  await drained;
});

test("a second signal ends the grace and running requests", async () => {
  const { server, clock, lifecycle, waiting, drained } = await draining();
  const { connection } = await waiting();
  lifecycle.quit();
  await clock.advance(501);
  expect(server.listening).toBe(true);
  lifecycle.quit();
  while (server.listening) await clock.advance(0);
  // A stream that is being ended has a second for its last frame.
  await clock.advance(0);
  await clock.advance(1_000);
  await connection.untilClosed();
  await drained;
});

test("an order to end while listeners drain gracefully leaves them the rest of the grace, and no more", async () => {
  const { server, clock, lifecycle, drained } = await draining();
  lifecycle.drainListeners(true);
  await clock.advance(GRACE_MS - 1_000);
  lifecycle.quit();
  await clock.advance(999);
  expect(server.listening).toBe(true);
  await clock.advance(1);
  await drained;
});

test("a request that arrives as the listener closes is answered", async () => {
  const { clock, lifecycle, open } = await draining();
  const kept = await keptConnection(open);
  kept.write(GET);
  lifecycle.drainListeners(false);
  expect((await kept.reply()).status).toBe(200);
  await kept.untilClosed();
  expect(clock.nowMs()).toBe(0);
});
