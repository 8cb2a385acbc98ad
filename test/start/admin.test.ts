import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { EngineProcess } from "../support/processes/engine-process.ts";
import { FleetProcess } from "../support/processes/fleet-process.ts";
import { createKey } from "../support/processes/key-command.ts";

type Ready = { readonly baseUrl: string; readonly adminUrl: string; readonly healthUrl?: string };

/** Starts the gateway process without an engine. */
async function startProcess(settings: object = {}) {
  const folder = await mkdtemp(join(tmpdir(), "svc-admin-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "keys.json");
  await createKey(file);
  const config = { listen: { port: 0 }, admin: { port: 0 }, keys: { file }, clusters: [], ...settings };
  const { process, ready } = await FleetProcess.start<Ready>("gateway/main.js", config);
  onTestFinished(() => process.end());
  const adminUrl = ready.adminUrl.replace("0.0.0.0", "127.0.0.1");
  return {
    ...ready,
    adminUrl,
    process,
    async admin(path: string, method = "POST") {
      const response = await fetch(`${adminUrl}${path}`, { method });
      return { status: response.status, text: await response.text() };
    },
  };
}

function refused(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(false);
    });
    socket.once("error", () => resolve(true));
  });
}

async function untilRefused(url: string): Promise<void> {
  while (!(await refused(url))) await new Promise((resolve) => setTimeout(resolve, 5));
}

test("drained listeners close at once; the process stays until it is stopped", async () => {
  const gateway = await startProcess();
  expect((await gateway.admin("/listeners", "GET")).text).toContain(`public::${gateway.baseUrl}\n`);
  expect(await gateway.admin("/drain_listeners")).toEqual({ status: 200, text: "OK\n" });
  await untilRefused(gateway.baseUrl);
  expect(await gateway.admin("/ready", "GET")).toEqual({ status: 503, text: "DRAINING\n" });
  expect((await gateway.admin("/listeners", "GET")).text).toBe(`admin::${gateway.adminUrl}\n`);
  expect(await gateway.admin("/quitquitquit")).toEqual({ status: 200, text: "OK\n" });
  expect(await gateway.process.ended).toBe(0);
});

test("a graceful drain continues to answer, with connection: close", async () => {
  const gateway = await startProcess({ drainGraceMs: 3_600_000 });
  const before = await fetch(`${gateway.baseUrl}/v1/models`);
  await before.text();
  expect(before.headers.get("connection")).toBe("keep-alive");
  await gateway.admin("/drain_listeners?graceful");
  expect((await gateway.admin("/ready", "GET")).status).toBe(503);
  const after = await fetch(`${gateway.baseUrl}/v1/models`);
  await after.text();
  expect([after.status, after.headers.get("connection")]).toEqual([401, "close"]);
  await gateway.admin("/quitquitquit");
  // Signals within half a second count as one; a second one ends the grace.
  await new Promise((resolve) => setTimeout(resolve, 600));
  await gateway.admin("/quitquitquit");
  expect(await gateway.process.ended).toBe(0);
});

test("the health listener serves health and metrics only", async () => {
  const gateway = await startProcess({ health: { port: 0 }, admin: { host: "0.0.0.0", port: 0 } });
  const health = async (path: string, method = "GET") => {
    // A request by host name, as from Prometheus, is answered.
    const response = await fetch(`${gateway.healthUrl?.replace("127.0.0.1", "localhost")}${path}`, { method });
    return { status: response.status, text: await response.text() };
  };
  expect(await health("/healthz")).toEqual({ status: 200, text: "ok\n" });
  expect((await health("/readyz")).status).toBe(503);
  expect((await health("/metrics")).text).toContain("svc_http_requests_total");
  for (const path of ["/stats", "/config_dump", "/", "/clusters"]) expect((await health(path)).status).toBe(404);
  for (const path of ["/quitquitquit", "/drain_listeners", "/healthz"])
    expect((await health(path, "POST")).status).toBeGreaterThanOrEqual(404);
  expect((await gateway.admin("/listeners", "GET")).text).toContain(`health::${gateway.healthUrl}\n`);
  expect(JSON.stringify(gateway.process.log)).toContain(
    "the admin port is open to other machines and has no admin.tokenFile",
  );
});

/** Returns the metrics of a page of metrics, in the documents or of a process, but those of every process. */
function metricsIn(page: string, name: RegExp): readonly string[] {
  const names = [...page.matchAll(name)].map(([, one = ""]) => one);
  return names.filter((one) => /^svc_|^nodejs_eventloop_utilization/.test(one)).sort();
}

test("running programs have the metrics of their pages", async () => {
  const documented = (file: string) =>
    metricsIn(readFileSync(join(import.meta.dirname, "../..", file), "utf8"), /^\| `(\w+)/gm);
  const served = (text: string) => metricsIn(text, /^# TYPE (\w+)/gm);
  // One of them exists beside a store only, whether that answers or not.
  const gateway = await startProcess({ state: { redis: { url: "redis://127.0.0.1:1" } } });
  expect(served((await gateway.admin("/stats", "GET")).text)).toEqual(documented("gateway/docs/metrics.md"));
  const node = await EngineProcess.start("node");
  onTestFinished(() => node.kill());
  expect(served(await node.metrics())).toEqual(documented("engine/docs/metrics.md"));
});
