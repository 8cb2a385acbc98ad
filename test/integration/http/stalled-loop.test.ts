import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { publicApp } from "../../../gateway/http/connection/public-app.ts";
import { Stats } from "../../../gateway/stats/stats.ts";
import { head, RawConnection } from "../../support/http/raw-http.ts";
import { stallLoop } from "../../support/stall-loop.ts";
import { until } from "../../support/until.ts";

/* Connection timeouts that expire while the event loop is blocked: bytes that arrived in time are not read yet. */

const GET = head("GET /here HTTP/1.1", "host: gateway.test");
/** Node closes an idle connection this many milliseconds after the announced time. */
const NODE_ADDS_MS = 1_000;
const IDLE_MS = 100;
const HEADERS_MS = 300;
/** Longer than every timeout here, and than Node's interval for checking slow requests. */
const STALL_MS = 2_000;

const open: { close(): unknown }[] = [];

afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
});

async function listening() {
  const stats = new Stats();
  const lines: Record<string, unknown>[] = [];
  const info = (line: Record<string, unknown>) => lines.push(line);
  const log = { info, isLevelEnabled: () => true } as never;
  const sinks = { clock: systemClock, tracing: undefined, log, stats, trustedHops: 0 };
  const { app } = publicApp({ requestTimeoutMs: 60_000, requestHeadersTimeoutMs: HEADERS_MS }, sinks);
  app.get("/here", async () => "here");
  await app.listen({ host: "127.0.0.1", port: 0 });
  open.push(app);
  const server = app.server as Server;
  server.keepAliveTimeout = IDLE_MS;
  const connected = async () => {
    const accepted = once(server, "connection");
    const connection = await RawConnection.open((server.address() as AddressInfo).port);
    open.push({ close: () => connection.destroy() });
    await accepted;
    return connection;
  };
  return { app, server, lines, connected };
}

test("a request that arrived before the idle timeout of its connection is answered after a stall", async () => {
  const { connected } = await listening();
  const connection = await connected();
  expect((await connection.write(GET).reply()).status).toBe(200);
  await stallLoop(IDLE_MS + NODE_ADDS_MS + STALL_MS, () => connection.write(GET));
  expect((await connection.reply()).body).toBe("here");
  await connection.untilClosed();
});

test("a request on a new connection is answered that came before the loop found it late", async () => {
  const { connected, lines } = await listening();
  const connection = await connected();
  await stallLoop(STALL_MS, () => connection.write(GET));
  expect((await connection.reply()).body).toBe("here");
  expect(lines).toMatchObject([{ code: 200 }]);
});

test("a request with an incomplete head after the stall is refused, and logged", async () => {
  const { connected, lines } = await listening();
  const connection = await connected();
  await stallLoop(STALL_MS, () => connection.write(GET.slice(0, -2)));
  const refused = await connection.reply();
  expect(refused.status).toBe(408);
  await connection.untilClosed();
  expect(lines).toMatchObject([
    { code: 408, route: "unknown", detail: "request_timeout", request_id: refused.headers.get("x-request-id") },
  ]);
});

test("a request behind the last one that its connection may carry is counted, which Node answers", async () => {
  const { connected, server, lines } = await listening();
  server.maxRequestsPerSocket = 1;
  const connection = (await connected()).write(GET + GET);
  expect((await connection.reply()).status).toBe(200);
  expect((await connection.reply()).status).toBe(503);
  await until(() => lines.length === 2, "both have their line");
  expect(lines.map(({ code }) => code).sort()).toEqual([200, 503]);
});
