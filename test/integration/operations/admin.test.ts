import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { CATALOG } from "../../../gateway/catalog.ts";
import { becomes } from "../../support/becomes.ts";
import { administeredService } from "../../support/gateway/administered-service.ts";
import { until } from "../../support/until.ts";

const MODEL = "svc-qwen";
const CHAT = "/v1/chat/completions";
const CANARY = "canary-5b1f";

const rig = administeredService({
  drainTimeoutMs: 54_321,
  sealingKeyFile: "/nowhere/sealing.key",
  clusters: [{ model: MODEL, endpoints: [{ address: "engine:1" }], tls: { caFile: `https://user:${CANARY}@proxy` } }],
});

async function status(path: string): Promise<number> {
  const response = await rig.admin.post(path);
  await response.text();
  return response.status;
}

/** The endpoints of the model, as `/clusters` prints them in JSON. */
async function hostStatuses() {
  const { cluster_statuses: clusters } = (await rig.admin.json("/clusters?format=json")) as {
    cluster_statuses: { name: string; host_statuses: { health_status: object }[] }[];
  };
  return clusters.find(({ name }) => name === MODEL)?.host_statuses;
}

describe("reading", () => {
  test.each([
    "/healthz",
    "/ready",
    "/readyz",
    "/stats",
    "/stats/prometheus",
    "/memory",
    "/runtime",
    "/keys/status",
    "/clusters",
    "/server_info",
    "/listeners",
    "/help",
    "/fleet",
    "/",
  ])("%s answers GET, and is never kept or framed", async (path) => {
    const response = await rig.admin.get(path);
    expect(response.status).toBe(200);
    expect((await response.text()).length).toBeGreaterThan(0);
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    expect(response.headers.get("x-frame-options")).toBe("DENY");
  });

  test("a path that only reads refuses POST", async () => {
    const response = await rig.admin.post("/stats");
    expect([response.status, response.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  });

  test("a path that is not there is 404 without repeating it", async () => {
    const response = await rig.admin.get(`/${CANARY}`);
    expect(response.status).toBe(404);
    expect(await response.text()).not.toContain(CANARY);
  });

  test("every path of /help exists", async () => {
    const lines = (await rig.admin.text("/help")).trim().split("\n");
    expect(lines.length).toBeGreaterThan(15);
    for (const line of lines) {
      const [, method = "", path = ""] = /^(GET|POST) +(\S+): ./.exec(line) ?? [];
      // With the other method, which has no effect: a path that does not exist would be 404.
      const other =
        method === "GET" ? await rig.admin.post(path) : await rig.admin.get(path.replace("{address}", "a:1"));
      expect([line, other.status]).toEqual([line, method === "GET" ? 405 : 400]);
    }
  });

  test("/clusters reports health and load of every endpoint, as text and as JSON", async () => {
    await rig.service.reply(CHAT);
    const { address } = rig.service.engine;
    const lines = (await rig.admin.text("/clusters")).split("\n");
    for (const { id } of CATALOG) expect(lines).toContain(`${id}::${address}::health_flags::healthy`);
    expect(lines).toContain(`${MODEL}::${address}::rq_active::0`);
    expect(lines).toContain(`${MODEL}::${address}::weight::1`);
    const [host, port] = address.split(":");
    const hosts = await hostStatuses();
    expect(hosts).toMatchObject([
      { address: { socket_address: { address: host, port_value: Number(port) } }, load: { slots: 1_000 } },
    ]);
    expect(hosts?.map((one) => one.health_status)).toEqual([{ eds_health_status: "HEALTHY" }]);
  });

  test("/stats is Prometheus text with Envoy's cluster names; ?filter= picks some, ?format=json is the same as JSON", async () => {
    await rig.service.stream(CHAT);
    await until(() => rig.service.gateway.log.some((line) => line.includes('"request"')), "the request is logged");
    const response = await rig.admin.get("/stats");
    expect(response.headers.get("content-type")).toContain("text/plain; version=0.0.4");
    const all = await response.text();
    for (const name of [
      `svc_cluster_membership_healthy{cluster="${MODEL}"} 1`,
      `svc_cluster_upstream_rq_active{cluster="${MODEL}"} 0`,
      `svc_cluster_circuit_breakers_open{cluster="${MODEL}",kind="rq"} 0`,
      `svc_cluster_upstream_rq_pending_active{cluster="${MODEL}"} 0`,
      'svc_http_requests_total{route="/v1/chat/completions",format="chat",code="200",outcome="ok"}',
      'svc_stream_end_total{format="chat",reason="complete"}',
      'svc_ratelimit_decisions_total{dim="all",decision="allowed"}',
      "nodejs_eventloop_lag_p99_seconds ",
      "nodejs_eventloop_utilization_ratio ",
    ])
      expect(all).toContain(name);
    const some = await rig.admin.text("/stats?filter=membership_healthy|rq_active");
    const types = some.split("\n").filter((line) => line.startsWith("# TYPE"));
    expect(types.length).toBeGreaterThan(1);
    for (const line of types) expect(line).toMatch(/membership_healthy|rq_active/);
    const { stats } = (await rig.admin.json("/stats?format=json&filter=membership_healthy")) as {
      stats: { name: string }[];
    };
    expect(stats.map(({ name }) => name)).toEqual(["svc_cluster_membership_healthy"]);
    expect((await rig.admin.get("/stats?filter=(a%2B)%2B$")).status).toBe(400);
  });

  test("/config_dump has the settings in force, and no secret", async () => {
    const dump = await rig.admin.text("/config_dump");
    expect(dump).toContain('"drainTimeoutMs": 54321');
    expect(dump).toContain('"sealingKeyFile": "/nowhere/sealing.key"');
    expect(dump).toContain(rig.service.engine.address);
    const { keys } = JSON.parse(readFileSync(rig.service.gateway.keyFile, "utf8")) as {
      keys: Record<string, unknown>[];
    };
    const secrets = [rig.service.gateway.key, ...keys.flatMap((record) => Object.values(record))].filter(
      (value): value is string => typeof value === "string" && value.length > 20,
    );
    expect(secrets.length).toBeGreaterThan(1);
    const { id } = keys[0] ?? {};
    const paths = ["/config_dump", "/stats", "/clusters", "/fleet", "/server_info", "/runtime", "/memory", "/"];
    for (const path of [...paths, "/keys/status", `/limits/${id}`, `/keys/${id}/usage`]) {
      const shown = await rig.admin.text(path);
      for (const secret of secrets) expect(shown).not.toContain(secret);
    }
  });

  test("/config_dump masks a password inside an address", async () => {
    const dump = await rig.admin.text("/config_dump");
    expect(dump).toContain("https://[redacted]@proxy");
    expect(dump).not.toContain(CANARY);
  });

  test("/stats?usedonly omits metrics that were never counted, in both formats", async () => {
    await rig.service.reply(CHAT);
    const used = await rig.admin.text("/stats?usedonly&filter=upstream_rq");
    expect(used).toContain("svc_cluster_upstream_rq_total");
    expect(used).not.toContain("svc_cluster_upstream_rq_retry_overflow_total");
    expect(await rig.admin.text("/stats?filter=upstream_rq")).toContain("svc_cluster_upstream_rq_retry_overflow_total");
    const { stats } = (await rig.admin.json("/stats?format=json&usedonly&filter=upstream_rq")) as {
      stats: { name: string }[];
    };
    expect(stats.map(({ name }) => name)).toEqual([...used.matchAll(/^# TYPE (\w+)/gm)].map(([, name]) => name));
    const lines = (body: string) => body.split("\n").filter((line) => line.startsWith("svc_keystore_keys"));
    for (const path of ["/stats?format=prometheus", "/stats/prometheus?format=json"])
      expect(lines(await rig.admin.text(path))).toEqual(["svc_keystore_keys 1"]);
    expect((await rig.admin.get("/stats?format=html")).status).toBe(400);
  });

  test("/memory has Envoy's counts, as text", async () => {
    const memory = await rig.admin.json("/memory");
    for (const name of ["allocated", "heap_size", "total_physical_bytes"]) expect(memory[name]).toMatch(/^[1-9]\d+$/);
    expect(memory.inflight_body_bytes).toBe("0");
  });

  test("/runtime has the changed values beside the configured ones", async () => {
    const entries = async () => (await rig.admin.json("/runtime")).entries;
    expect(await entries()).toMatchObject({
      "log.level": { final_value: "info", layer_values: ["info", ""] },
      "healthcheck.failed": { final_value: "false", layer_values: ["false", ""] },
      "endpoints.drained": { final_value: "" },
    });
    const { address } = rig.service.engine;
    for (const path of ["/healthcheck/fail", `/endpoint/${address}/drain`]) expect(await status(path)).toBe(200);
    expect(await entries()).toMatchObject({
      "healthcheck.failed": { final_value: "true", layer_values: ["false", "true"] },
      "endpoints.drained": { final_value: address, layer_values: ["", address] },
    });
    for (const path of ["/healthcheck/ok", `/endpoint/${address}/undrain`]) expect(await status(path)).toBe(200);
  });

  test("/server_info and /listeners report the running gateway", async () => {
    const { keyIds: key_ids } = rig.service.gateway.sealing;
    const sealing = { key_ids, ends_with_process: false };
    expect(await rig.admin.json("/server_info")).toMatchObject({ version: "1.2.3", state: "LIVE", sealing });
    expect(await rig.admin.text("/listeners")).toBe(`public::${rig.service.gateway.baseUrl}\n`);
    expect(await rig.admin.json("/listeners?format=json")).toEqual({
      listener_statuses: [{ name: "public", local_address: rig.service.gateway.baseUrl }],
    });
  });
});

describe("changing", () => {
  const flags = async () =>
    (await rig.admin.text("/clusters")).split("\n").find((line) => line.includes("::health_flags::"));

  test.each([
    "/drain_listeners",
    "/healthcheck/fail",
    "/healthcheck/ok",
    "/endpoint/127.0.0.1:1/drain",
    "/endpoint/127.0.0.1:1/kill",
    "/logging?level=debug",
    "/reset_counters",
    "/quitquitquit",
  ])("%s has no effect at GET and answers 400", async (path) => {
    const response = await rig.admin.get(path);
    expect([response.status, await response.text()]).toEqual([400, "this path changes something: use POST\n"]);
    expect(await rig.admin.text("/ready")).toBe("LIVE\n");
    expect([rig.admin.lifecycle.drain.aborted, rig.admin.log.level]).toEqual([false, "info"]);
  });

  test.each(["https://example.com", "null", "http://rebound.example:9901", "http://127.0.0.1:1"])(
    "a page of %s changes nothing",
    async (origin) => {
      expect((await rig.admin.post("/healthcheck/fail", { origin })).status).toBe(403);
      expect(await rig.admin.text("/ready")).toBe("LIVE\n");
    },
  );

  test("health can be failed by hand, also by the admin's own page", async () => {
    expect((await rig.admin.post("/healthcheck/fail", { origin: rig.admin.url })).status).toBe(200);
    const failed = await rig.admin.get("/ready");
    expect([failed.status, await failed.text()]).toEqual([503, "DRAINING\n"]);
    expect(await rig.admin.text("/healthz")).toBe("ok\n");
    expect(await status("/healthcheck/ok")).toBe(200);
    expect(await rig.admin.text("/ready")).toBe("LIVE\n");
  });

  test("a body is ignored, whatever its type", async () => {
    const response = await fetch(`${rig.admin.url}/healthcheck/ok`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{",
    });
    expect(response.status).toBe(200);
  });

  const held = () => rig.admin.stat("svc_cluster_upstream_rq_held", `cluster="${MODEL}"`);

  test("a drained endpoint gets no new requests until it is taken back", async () => {
    const { address } = rig.service.engine;
    expect(await status(`/endpoint/${address}/drain`)).toBe(200);
    expect(await flags()).toMatch(/::\/draining$/);
    expect(await hostStatuses()).toMatchObject([{ health_status: { draining: true } }]);
    expect(await rig.admin.stat("svc_cluster_membership_draining", `cluster="${MODEL}"`)).toBe(1);
    const waiting = rig.service.post(CHAT);
    await becomes(async () => (await held()) === 1, "the request is held");
    expect(await status(`/endpoint/${encodeURIComponent(address)}/undrain`)).toBe(200);
    expect(await flags()).toMatch(/::healthy$/);
    expect((await waiting).status).toBe(200);
    expect(await status("/endpoint/127.0.0.1:1/drain")).toBe(404);
  });

  test("an endpoint is ejected for a time, and gets no requests until it is put back", async () => {
    const { address } = rig.service.engine;
    for (const seconds of ["0", "x", "1.5", "86401"])
      expect(await status(`/endpoint/${address}/eject?seconds=${seconds}`)).toBe(400);
    expect(await status("/endpoint/127.0.0.1:1/eject")).toBe(404);
    expect(await status(`/endpoint/${address}/eject?seconds=3600`)).toBe(200);
    expect(await flags()).toMatch(/::\/failed_outlier_check$/);
    expect(await hostStatuses()).toMatchObject([{ health_status: { failed_outlier_check: true } }]);
    expect(await rig.admin.stat("svc_cluster_outlier_ejections_active", `cluster="${MODEL}"`)).toBe(1);
    const waiting = rig.service.post(CHAT);
    await becomes(async () => (await held()) === 1, "the request is held");
    expect(await status(`/endpoint/${address}/uneject`)).toBe(200);
    expect(await flags()).toMatch(/::healthy$/);
    expect((await waiting).status).toBe(200);
  });

  test("a change by hand is a line in the log, with its path and where it came from", async () => {
    expect(await status("/endpoint/127.0.0.1:1/drain")).toBe(404);
    const said = () => rig.admin.lines.filter((line) => line.includes('"path":"/endpoint/127.0.0.1:1/drain"'));
    await becomes(async () => said().length > 0, "the line");
    expect(JSON.parse(said()[0] ?? "")).toMatchObject({ from: "127.0.0.1", code: 404, msg: "admin change" });
  });

  test("the log level is reported and changed, to a valid one only", async () => {
    expect(await (await rig.admin.post("/logging")).text()).toBe("info\n");
    expect(await status("/logging?level=warn")).toBe(200);
    expect(rig.admin.log.level).toBe("warn");
    for (const level of ["trace", "silent", CANARY]) {
      const response = await rig.admin.post(`/logging?level=${level}`);
      expect(response.status).toBe(400);
      expect(await response.text()).not.toContain(CANARY);
    }
    expect(rig.admin.log.level).toBe("warn");
  });

  test("counters and histograms are set to zero, gauges are not", async () => {
    await rig.service.reply(CHAT);
    const counted = () => rig.admin.stat("svc_cluster_upstream_rq_total", `cluster="${MODEL}"`);
    expect(await counted()).toBeGreaterThan(0);
    expect(await status("/reset_counters")).toBe(200);
    expect(await counted()).toBe(0);
    expect(await rig.admin.stat("svc_cluster_membership_healthy", `cluster="${MODEL}"`)).toBe(1);
  });
});
