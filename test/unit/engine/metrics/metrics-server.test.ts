import { Registry } from "prom-client";
import { afterEach, expect, test } from "vitest";
import { type MetricsServer, serveMetrics } from "../../../../engine/metrics/metrics-server.ts";
import type { NodePhase } from "../../../../engine/node/node-state.ts";

const node: { phase: NodePhase; engineHung: boolean } = { phase: "loading", engineHung: false };
let server: MetricsServer | undefined;
afterEach(() => server?.close());

const get = (path: string, method = "GET") => fetch(`http://127.0.0.1:${server?.port}${path}`, { method });

test("probes report whether the process lives, and whether the node accepts calls", async () => {
  server = await serveMetrics(new Registry(), node, { host: "127.0.0.1", port: 0 });
  const said: unknown[] = [];
  for (node.phase of ["loading", "serving", "stalled", "draining"] as const) {
    const ready = await get("/readyz");
    said.push([(await get("/healthz")).status, ready.status, await ready.text()]);
  }
  expect(said).toEqual([
    [200, 503, "loading\n"],
    [200, 200, "serving\n"],
    [200, 503, "stalled\n"],
    [200, 503, "draining\n"],
  ]);
});

test("the engine probe fails if the engine hangs, and no other does", async () => {
  server = await serveMetrics(new Registry(), node, { host: "127.0.0.1", port: 0 });
  const said: unknown[] = [];
  for (node.engineHung of [false, true]) {
    const engine = await get("/livez/engine");
    said.push([(await get("/healthz")).status, engine.status, await engine.text()]);
  }
  expect(said).toEqual([
    [200, 200, "ok\n"],
    [200, 503, "hung\n"],
  ]);
});

test("other paths return 404", async () => {
  server = await serveMetrics(new Registry(), node, { host: "127.0.0.1", port: 0 });
  expect((await get("/metrics")).headers.get("content-type")).toMatch(/^text\/plain/);
  for (const path of ["/", "/constructor", "/readyz/", "/livez"]) expect((await get(path)).status).toBe(404);
  expect((await get("/metrics", "POST")).status).toBe(404);
});
