import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CATALOG } from "../../../gateway/catalog.ts";
import { becomes } from "../../support/becomes.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { gate } from "../../support/gate.ts";
import { HELLO, type ScriptedService, startScriptedService } from "../../support/gateway/scripted-service.ts";
import { type RunningAdmin, startAdmin } from "../../support/gateway/start-admin.ts";
import { readBody } from "../../support/http/read-until.ts";
import { MINIMAL } from "../../support/requests/minimal-bodies.ts";
import { until } from "../../support/until.ts";

const MODEL = "svc-qwen";
const CHAT = "/v1/chat/completions";
const CANARY = "canary-5b1f";

let service: ScriptedService;
let admin: RunningAdmin;

beforeAll(async () => {
  service = await startScriptedService();
  admin = await startAdmin(service.gateway, {
    limits: { headerPrefix: "shown" },
    sealingKeyFile: "/nowhere/sealing.key",
    clusters: [{ model: MODEL, endpoints: [{ address: "engine:1", locality: `https://user:${CANARY}@proxy` }] }],
  });
});

afterAll(async () => {
  await admin.stop();
  await service.stop();
});

const text = async (path: string) => (await admin.get(path)).text();
const json = async (path: string) => (await admin.get(path)).json() as Promise<Record<string, unknown>>;

/** One value of `/stats`; 0 where there is none yet. */
async function stat(name: string, labels: string): Promise<number> {
  const line = (await text(`/stats?filter=${name.replace(/_count$/, "")}`))
    .split("\n")
    .find((one) => one.startsWith(`${name}{${labels}}`));
  return Number(line?.split(" ").at(-1) ?? 0);
}

async function status(path: string): Promise<number> {
  const response = await admin.post(path);
  await response.text();
  return response.status;
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
    "/live",
    "/fleet",
    "/",
  ])("%s answers GET, and is never kept or framed", async (path) => {
    const response = await admin.get(path);
    expect(response.status).toBe(200);
    expect((await response.text()).length).toBeGreaterThan(0);
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    expect(response.headers.get("x-frame-options")).toBe("DENY");
  });

  test("a path that only reads refuses POST", async () => {
    const response = await admin.post("/stats");
    expect([response.status, response.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  });

  test("a path that is not there is 404 without repeating it", async () => {
    const response = await admin.get(`/${CANARY}`);
    expect(response.status).toBe(404);
    expect(await response.text()).not.toContain(CANARY);
  });

  test("every path of /help exists", async () => {
    const lines = (await text("/help")).trim().split("\n");
    expect(lines.length).toBeGreaterThan(15);
    for (const line of lines) {
      const [, method = "", path = ""] = /^(GET|POST) +(\S+): ./.exec(line) ?? [];
      // By the other method, so that nothing is changed: a path that does not exist would be 404.
      const other = method === "GET" ? await admin.post(path) : await admin.get(path.replace("{address}", "a:1"));
      expect([line, other.status]).toEqual([line, method === "GET" ? 405 : 400]);
    }
  });

  test("/clusters tells health and load of every endpoint, as text and as JSON", async () => {
    await service.reply(CHAT);
    const { address } = service.engine;
    const lines = (await text("/clusters")).split("\n");
    for (const { id } of CATALOG) expect(lines).toContain(`${id}::${address}::health_flags::healthy`);
    expect(lines).toContain(`${MODEL}::${address}::rq_active::0`);
    expect(lines).toContain(`${MODEL}::${address}::weight::1`);
    const { cluster_statuses: clusters } = (await json("/clusters?format=json")) as {
      cluster_statuses: { name: string; host_statuses: Record<string, unknown>[] }[];
    };
    const [host, port] = address.split(":");
    expect(clusters.find(({ name }) => name === MODEL)?.host_statuses).toMatchObject([
      {
        address: { socket_address: { address: host, port_value: Number(port) } },
        health_status: { eds_health_status: "HEALTHY" },
        priority: 0,
        load: { slots: 1_000 },
      },
    ]);
  });

  test("/stats is Prometheus text with Envoy's cluster names; ?filter= picks some, ?format=json is the same as JSON", async () => {
    await service.stream(CHAT);
    await until(() => service.gateway.log.some((line) => line.includes('"request"')), "the request is logged");
    const response = await admin.get("/stats");
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
    const some = await text("/stats?filter=membership_healthy|rq_active");
    const types = some.split("\n").filter((line) => line.startsWith("# TYPE"));
    expect(types.length).toBeGreaterThan(1);
    for (const line of types) expect(line).toMatch(/membership_healthy|rq_active/);
    const { stats } = (await json("/stats?format=json&filter=membership_healthy")) as { stats: { name: string }[] };
    const names = ["svc_cluster_membership_healthy", "envoy_cluster_membership_healthy"];
    expect(stats.map(({ name }) => name)).toEqual(names);
    expect((await admin.get("/stats?filter=(a%2B)%2B$")).status).toBe(400);
  });

  test("/config_dump has what is in force, and no secret", async () => {
    const dump = await text("/config_dump");
    expect(dump).toContain('"headerPrefix": "shown"');
    expect(dump).toContain('"sealingKeyFile": "/nowhere/sealing.key"');
    expect(dump).toContain(service.engine.address);
    const { keys } = JSON.parse(readFileSync(service.gateway.keyFile, "utf8")) as { keys: Record<string, unknown>[] };
    const secrets = [service.gateway.key, ...keys.flatMap((record) => Object.values(record))].filter(
      (value): value is string => typeof value === "string" && value.length > 20,
    );
    expect(secrets.length).toBeGreaterThan(1);
    const { id } = keys[0] ?? {};
    const paths = [
      "/config_dump",
      "/stats",
      "/clusters",
      "/live",
      "/fleet",
      "/server_info",
      "/runtime",
      "/memory",
      "/",
    ];
    for (const path of [...paths, "/keys/status", `/limits/${id}`, `/keys/${id}/usage`]) {
      const shown = await text(path);
      for (const secret of secrets) expect(shown).not.toContain(secret);
    }
  });

  test("/config_dump?mask= shows the fields that it names, and secrets no more than without", async () => {
    expect(await json("/config_dump?mask=bootstrap.limits.headerPrefix")).toEqual({
      bootstrap: { limits: { headerPrefix: "shown" } },
    });
    expect(await text("/config_dump?mask=bootstrap.clusters.endpoints.locality")).not.toContain(CANARY);
    expect((await admin.get("/config_dump?mask=a..b")).status).toBe(400);
  });

  test("/config_dump masks a password inside an address", async () => {
    const dump = await text("/config_dump");
    expect(dump).toContain("https://[redacted]@proxy");
    expect(dump).not.toContain(CANARY);
  });

  test("/stats?usedonly leaves out what was never counted, in both formats", async () => {
    await service.reply(CHAT);
    const used = await text("/stats?usedonly&filter=upstream_rq");
    expect(used).toContain("svc_cluster_upstream_rq_total");
    expect(used).not.toContain("svc_cluster_upstream_rq_retry_overflow_total");
    expect(await text("/stats?filter=upstream_rq")).toContain("svc_cluster_upstream_rq_retry_overflow_total");
    const { stats } = (await json("/stats?format=json&usedonly&filter=upstream_rq")) as { stats: { name: string }[] };
    expect(stats.map(({ name }) => name)).toEqual([...used.matchAll(/^# TYPE (\w+)/gm)].map(([, name]) => name));
    const lines = (body: string) => body.split("\n").filter((line) => line.startsWith("svc_keystore_keys"));
    for (const path of ["/stats?format=prometheus", "/stats/prometheus?format=json"])
      expect(lines(await text(path))).toEqual(["svc_keystore_keys 1"]);
    expect((await admin.get("/stats?format=html")).status).toBe(400);
  });

  test("/keys/status counts the keys, and says since when they are in force", async () => {
    const { last_load: loaded, ...status } = await json("/keys/status");
    expect(status).toEqual({
      ...{ keys: 1, active: 1, disabled: 0, revoked: 0 },
      ...{ revision: 1, load_errors: 0, stale: false },
    });
    expect(Date.parse(String(loaded))).toBeLessThanOrEqual(Date.now());
  });

  test("/limits tells how a key's limits stand, and what it holds", async () => {
    const limits = ["--rpm", "60", "--otpm", "5000", "--concurrency", "3", "--tokens-per-day", "900000"];
    const perModel = ["--per-model", `${MODEL}:rpm=30,concurrency=2`];
    const key = await service.createKey("--name", "limited", "--models", "all", ...limits, ...perModel);
    const id = key.split("_")[2] ?? "";
    const { passed, open } = gate();
    service.play(async function* () {
      yield [started(), textStart(0), delta(0, "held ")];
      await passed;
      yield [blockEnd(0), finished()];
    });
    const response = await service.post(CHAT, { stream: true }, { authorization: `Bearer ${key}` });
    const levels = await json(`/limits/${id}`);
    expect(levels).toMatchObject({
      key_id: id,
      limits: [
        { limit: "rpm", per: "minute", value: 60, capacity: 10 },
        { limit: "otpm", per: "minute", value: 5_000, capacity: 5_000 },
        { limit: "tokensPerDay", per: "day", value: 900_000 },
        { limit: "countRpm", value: 60, remaining: 10, full_in_ms: 0 },
        { limit: "rpm", model: MODEL, value: 30, capacity: 5 },
      ],
      places: [
        { of: "generations", limit: 3, taken: 1 },
        { of: "generations", model: MODEL, limit: 2, taken: 1 },
        { of: "counts", limit: 32, taken: 0 },
      ],
    });
    const [rpm, otpm] = (levels as { limits: { remaining: number }[] }).limits;
    expect(rpm?.remaining).toBeLessThan(10);
    expect(otpm?.remaining).toBeLessThan(5_000);
    open();
    await response.text();
    const taken = async () => ((await json(`/limits/${id}`)) as { places: { taken: number }[] }).places;
    await becomes(async () => (await taken()).every(({ taken }) => taken === 0), "the places are given back");
    service.play(HELLO);
    expect((await admin.get("/limits/nobody")).status).toBe(404);
    expect(await (await admin.get(`/limits/${CANARY}`)).text()).not.toContain(CANARY);
  });

  test("/keys/{id}/usage has what a key used by day and model, with limits or without, and what limits refused", async () => {
    const key = await service.createKey("--name", "user", "--models", "all");
    const id = key.split("_")[2] ?? "";
    const used = async () => (await json(`/keys/${id}/usage`)) as Record<string, unknown>;
    const none = { requests: 0, refused: 0, input_tokens: 0, cached_input_tokens: 0, output_tokens: 0 };
    expect(await used()).toMatchObject({ key_id: id, total: none, days: [] });
    const headers = { authorization: `Bearer ${key}` };
    for (const body of [{}, { stream: true }]) await (await service.post(CHAT, body, headers)).text();
    await becomes(async () => JSON.stringify(await used()).includes('"requests":2'), "both are counted");
    const { input_tokens, output_tokens } = (await used()).total as Record<string, number>;
    expect(input_tokens).toBeGreaterThan(0);
    expect(output_tokens).toBeGreaterThan(0);
    const [day] = (await used()).days as { readonly models: readonly Record<string, unknown>[] }[];
    expect(day?.models).toEqual([{ model: MODEL, ...((await used()).total as object) }]);
    const metrics = await text("/stats?filter=svc_key_");
    expect(metrics).toContain(`svc_key_tokens_total{key_id="${id}",token_type="output"} ${output_tokens}`);
    const small = await service.createKey("--name", "small", "--models", "all", "--rpm", "6");
    for (const status of [200, 429])
      expect((await service.post(CHAT, {}, { authorization: `Bearer ${small}` })).status).toBe(status);
    const total = async () => (await json(`/keys/${small.split("_")[2]}/usage`)).total as Record<string, number>;
    await becomes(async () => (await total()).requests === 1, "the one that was let in counts");
    expect(await total()).toMatchObject({ requests: 1, refused: 1, input_tokens: Number(input_tokens) / 2 });
    expect((await admin.get("/keys/nobody/usage")).status).toBe(404);
  });

  test("/keys/{id}/usage counts what an answer cost whose caller left", async () => {
    const key = await service.createKey("--name", "leaver", "--models", "all");
    const headers = { authorization: `Bearer ${key}` };
    const total = async () => (await json(`/keys/${key.split("_")[2]}/usage`)).total as Record<string, number>;
    const { passed, open } = gate();
    service.play(async function* () {
      yield [started(), textStart(0), delta(0, "one "), delta(0, "two ")];
      await passed;
    });
    const leaving = new AbortController();
    const left = await fetch(`${service.gateway.baseUrl}${CHAT}`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify({ model: MODEL, messages: [{ role: "user", content: "x" }], stream: true }),
      signal: leaving.signal,
    });
    await readBody(left).until((text) => text.includes("two "));
    expect(await total()).toMatchObject({ requests: 0 });
    leaving.abort();
    await becomes(async () => (await total()).requests === 1, "the answer that was left counts");
    expect(await total()).toMatchObject({ requests: 1, refused: 0, output_tokens: 2 });
    expect((await total()).input_tokens).toBeGreaterThan(0);
    open();
    service.play(HELLO);
  });

  test("/memory has Envoy's counts, as text", async () => {
    const memory = await json("/memory");
    for (const name of ["allocated", "heap_size", "total_physical_bytes"]) expect(memory[name]).toMatch(/^[1-9]\d+$/);
    expect(memory.inflight_body_bytes).toBe("0");
  });

  test("/runtime has what was changed here, beside what was configured", async () => {
    const entries = async () => (await json("/runtime")).entries;
    expect(await entries()).toMatchObject({
      "log.level": { final_value: "info", layer_values: ["info", ""] },
      "healthcheck.failed": { final_value: "false", layer_values: ["false", ""] },
      "endpoints.drained": { final_value: "" },
    });
    const { address } = service.engine;
    for (const path of ["/healthcheck/fail", `/endpoint/${address}/drain`]) expect(await status(path)).toBe(200);
    expect(await entries()).toMatchObject({
      "healthcheck.failed": { final_value: "true", layer_values: ["false", "true"] },
      "endpoints.drained": { final_value: address, layer_values: ["", address] },
    });
    for (const path of ["/healthcheck/ok", `/endpoint/${address}/undrain`]) expect(await status(path)).toBe(200);
  });

  test("/server_info and /listeners", async () => {
    const { keyIds: key_ids } = service.gateway.sealing;
    const sealing = { key_ids, ends_with_process: false };
    expect(await json("/server_info")).toMatchObject({ version: "1.2.3", state: "LIVE", sealing });
    expect(await text("/listeners")).toBe(`public::${service.gateway.baseUrl}\n`);
    expect(await json("/listeners?format=json")).toEqual({
      listener_statuses: [{ name: "public", local_address: service.gateway.baseUrl }],
    });
  });
});

describe("changing", () => {
  test.each([
    "/drain_listeners",
    "/healthcheck/fail",
    "/healthcheck/ok",
    "/endpoint/127.0.0.1:1/drain",
    "/logging?level=debug",
    "/reset_counters",
    "/quitquitquit",
  ])("%s does nothing at GET and says 400", async (path) => {
    const response = await admin.get(path);
    expect([response.status, await response.text()]).toEqual([400, "this path changes something: use POST\n"]);
    expect(await text("/ready")).toBe("LIVE\n");
    expect([admin.lifecycle.drain.aborted, admin.log.level]).toEqual([false, "info"]);
  });

  test.each(["https://example.com", "null", "http://rebound.example:9901", "http://127.0.0.1:1"])(
    "a page of %s changes nothing",
    async (origin) => {
      expect((await admin.post("/healthcheck/fail", { origin })).status).toBe(403);
      expect(await text("/ready")).toBe("LIVE\n");
    },
  );

  test("health can be failed by hand, also by the admin's own page", async () => {
    expect((await admin.post("/healthcheck/fail", { origin: admin.url })).status).toBe(200);
    const failed = await admin.get("/ready");
    expect([failed.status, await failed.text()]).toEqual([503, "DRAINING\n"]);
    expect(await text("/healthz")).toBe("ok\n");
    expect(await status("/healthcheck/ok")).toBe(200);
    expect(await text("/ready")).toBe("LIVE\n");
  });

  test("a body is ignored, whatever its type", async () => {
    const response = await fetch(`${admin.url}/healthcheck/ok`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{",
    });
    expect(response.status).toBe(200);
  });

  test("a drained endpoint gets no new requests until it is taken back", async () => {
    const { address } = service.engine;
    const flags = async () => (await text("/clusters")).split("\n").find((line) => line.includes("::health_flags::"));
    expect(await status(`/endpoint/${address}/drain`)).toBe(200);
    expect(await flags()).toMatch(/::\/draining$/);
    expect(await stat("svc_cluster_membership_draining", `cluster="${MODEL}"`)).toBe(1);
    expect((await service.post(CHAT)).status).toBe(503);
    expect(await status(`/endpoint/${encodeURIComponent(address)}/undrain`)).toBe(200);
    expect(await flags()).toMatch(/::healthy$/);
    expect((await service.post(CHAT)).status).toBe(200);
    expect(await status("/endpoint/127.0.0.1:1/drain")).toBe(404);
  });

  test("an endpoint is ejected for a time, and gets no requests until it is put back", async () => {
    const { address } = service.engine;
    const flags = async () => (await text("/clusters")).split("\n").find((line) => line.includes("::health_flags::"));
    for (const seconds of ["0", "x", "1.5", "86401"])
      expect(await status(`/endpoint/${address}/eject?seconds=${seconds}`)).toBe(400);
    expect(await status("/endpoint/127.0.0.1:1/eject")).toBe(404);
    expect(await status(`/endpoint/${address}/eject?seconds=3600`)).toBe(200);
    expect(await flags()).toMatch(/::\/failed_outlier_check$/);
    expect(await stat("svc_cluster_outlier_ejections_active", `cluster="${MODEL}"`)).toBe(1);
    expect((await service.post(CHAT)).status).toBe(503);
    expect(await status(`/endpoint/${address}/uneject`)).toBe(200);
    expect(await flags()).toMatch(/::healthy$/);
    expect((await service.post(CHAT)).status).toBe(200);
  });

  test("an ejected endpoint is put back by hand", async () => {
    const { address } = service.engine;
    const cluster = service.gateway.clusters.cluster(MODEL);
    if (!cluster) throw new Error("no cluster");
    const failures = cluster.settings.outlierDetection.consecutiveLocalOriginFailure;
    for (let i = 0; i < failures; i += 1) cluster.outliers.report(address, "local_failure", performance.now());
    expect(await stat("svc_cluster_outlier_ejections_active", `cluster="${MODEL}"`)).toBe(1);
    expect(await text("/clusters")).toContain(`${MODEL}::${address}::health_flags::/failed_outlier_check`);
    expect(await status(`/endpoint/${address}/uneject`)).toBe(200);
    expect(await stat("svc_cluster_outlier_ejections_active", `cluster="${MODEL}"`)).toBe(0);
  });

  test("a change by hand is a line in the log, with its path and where it came from", async () => {
    expect(await status("/endpoint/127.0.0.1:1/drain")).toBe(404);
    const said = () => admin.lines.filter((line) => line.includes('"path":"/endpoint/127.0.0.1:1/drain"'));
    await becomes(async () => said().length > 0, "the line");
    expect(JSON.parse(said()[0] ?? "")).toMatchObject({ from: "127.0.0.1", code: 404, msg: "admin change" });
  });

  test("the level of the log is said and changed, to a known one only", async () => {
    expect(await (await admin.post("/logging")).text()).toBe("info\n");
    expect(await status("/logging?level=warn")).toBe(200);
    expect(admin.log.level).toBe("warn");
    for (const level of ["trace", "silent", CANARY]) {
      const response = await admin.post(`/logging?level=${level}`);
      expect(response.status).toBe(400);
      expect(await response.text()).not.toContain(CANARY);
    }
    expect(admin.log.level).toBe("warn");
  });

  test("counters and histograms are set to zero, gauges are not", async () => {
    await service.reply(CHAT);
    const counted = () => stat("svc_cluster_upstream_rq_total", `cluster="${MODEL}"`);
    expect(await counted()).toBeGreaterThan(0);
    expect(await status("/reset_counters")).toBe(200);
    expect(await counted()).toBe(0);
    expect(await stat("svc_cluster_membership_healthy", `cluster="${MODEL}"`)).toBe(1);
  });
});

describe("/live", () => {
  type Live = { p50?: number; clusters: { model: string; requests: number; deltas: number; endpoints: object[] }[] };
  const live = async () => {
    const { p50, clusters } = (await json("/live")) as unknown as Live;
    const cluster = clusters.find(({ model }) => model === MODEL);
    if (!cluster) throw new Error("no cluster");
    return { p50, ...cluster };
  };

  test("counts requests, deltas and times to first token as they come", async () => {
    const before = await live();
    await service.stream(CHAT);
    await service.reply(CHAT);
    await until(() => service.gateway.stats.live.model(MODEL).requests === before.requests + 2, "both are counted");
    const after = await live();
    expect(after.deltas).toBeGreaterThanOrEqual(before.deltas + 2);
    expect(after.p50).toBeGreaterThan(0);
    expect(after.endpoints).toMatchObject([{ address: service.engine.address, healthFlags: [], rqActive: 0 }]);
  });

  test("the files of the page name no other origin, write nothing as markup, and stand under a strict policy", async () => {
    const names = ["/"];
    const texts: string[] = [];
    for (const name of names) {
      const reply = await admin.get(name);
      expect([name, reply.status]).toEqual([name, 200]);
      const policy = reply.headers.get("content-security-policy") ?? "";
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).not.toMatch(/unsafe|\*|http/);
      const body = await reply.text();
      texts.push(body);
      for (const [, file = ""] of body.matchAll(/(?:"\/page|from "\.)\/([\w.]+)"/g))
        if (!names.includes(`/page/${file}`)) names.push(`/page/${file}`);
    }
    expect(names).toHaveLength(7);
    for (const body of texts) {
      expect(body.replaceAll("http://www.w3.org/2000/svg", "")).not.toMatch(/https?:\/\//);
      expect(body).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\son\w+=|eval\(/);
    }
    for (const name of ["/page/page.ts", "/page/..%2fpage.css", "/page/"])
      expect((await admin.get(name)).status).toBe(404);
  });
});

describe("measurements of a stream", () => {
  test("the gap between two writes is counted, and the longest one logged", async () => {
    const { passed, open } = gate();
    service.play(async function* () {
      yield [started(), textStart(0), delta(0, "first ")];
      await passed;
      yield [delta(0, "last"), blockEnd(0), finished()];
    });
    const gaps = () => stat("svc_inter_delta_gap_seconds_count", `model="${MODEL}"`);
    const before = await gaps();
    const response = await service.post(CHAT, { stream: true });
    const id = response.headers.get("x-request-id") ?? "";
    const body = readBody(response);
    await body.until((text) => text.includes("first "));
    open();
    await body.toEnd();
    await until(() => service.gateway.log.some((line) => line.includes(id)), "the request is logged");
    const line = JSON.parse(service.gateway.log.find((one) => one.includes(id)) ?? "");
    expect(line.max_gap_ms).toBeGreaterThanOrEqual(0);
    expect(await gaps()).toBeGreaterThan(before);
  });

  test("a client that leaves is counted with the time until its engine was let go", async () => {
    const { passed, open } = gate();
    service.play(async function* () {
      yield [started(), textStart(0), delta(0, "first ")];
      await passed;
    });
    const leaving = new AbortController();
    const response = await fetch(`${service.gateway.baseUrl}${CHAT}`, {
      method: "POST",
      headers: { authorization: `Bearer ${service.gateway.key}`, "content-type": "application/json" },
      body: JSON.stringify({ ...MINIMAL[CHAT], stream: true }),
      signal: leaving.signal,
    });
    const id = response.headers.get("x-request-id") ?? "";
    leaving.abort();
    await until(() => service.gateway.log.some((line) => line.includes(id)), "the request is logged");
    open();
    const line = JSON.parse(service.gateway.log.find((one) => one.includes(id)) ?? "");
    expect(line).toMatchObject({ end_reason: "client_closed", response_flags: "DC" });
    expect(await text("/stats?filter=svc_cancel_latency")).toMatch(/^svc_cancel_latency_seconds_count 1$/m);
    expect(await stat("svc_streams_active", 'format="chat"')).toBe(0);
  });
});
