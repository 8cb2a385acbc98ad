import { pino } from "pino";
import { Registry } from "prom-client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { CATALOG } from "../../../gateway/catalog.ts";
import { registerClusterGauges } from "../../../gateway/http/admin/gauges.ts";
import { GatewayMetrics, METRICS } from "../../../gateway/stats/metrics.ts";
import { ClusterManager } from "../../../gateway/upstream/cluster/cluster-manager.ts";
import { clustersSchema } from "../../../gateway/upstream/cluster/cluster-settings.ts";
import { type ScriptedService, startScriptedService } from "../../support/gateway/scripted-service.ts";
import { type RunningAdmin, startAdmin } from "../../support/gateway/start-admin.ts";
import { POST_PATHS } from "../../support/requests/minimal-bodies.ts";
import { until } from "../../support/until.ts";

const STREAMS = ["/v1/chat/completions", "/v1/messages", "/v1/responses"] as const;
const CANARY = "canary-77aa";

let service: ScriptedService;
let admin: RunningAdmin;
let text: string;
/** Label names of each family, without a histogram's own. */
let labels: ReadonlyMap<string, ReadonlySet<string>>;
let types: ReadonlyMap<string, string>;

beforeAll(async () => {
  service = await startScriptedService();
  service.gateway.stats.gaps.zero({ model: "svc-qwen" });
  admin = await startAdmin(service.gateway);
  const { gateway } = service;
  for (const path of POST_PATHS) await service.reply(path);
  for (const path of STREAMS) await service.stream(path);
  const limited = await service.createKey(
    "--name",
    "limited",
    "--models",
    "svc-qwen",
    "--rpm",
    "1",
    "--priority",
    "LOW",
  );
  const auth = { authorization: `Bearer ${limited}` };
  for (let at = 0; at < 8; at += 1) await (await service.post("/v1/messages", {}, auth)).text();
  await (await gateway.get("/v1/models", { authorization: `Bearer ${CANARY}` })).text();
  await (await gateway.get(`/v1/models/${CANARY}`)).text();
  await (await gateway.get(`/${CANARY}`)).text();
  await (await service.post("/v1/chat/completions", { model: CANARY })).text();
  await (await service.post("/v1/chat/completions", { user: CANARY, prompt_cache_key: CANARY })).text();
  const requests = POST_PATHS.length + STREAMS.length + 8 + 5;
  const logged = () => gateway.log.filter((line) => line.includes('"msg":"request"')).length;
  await until(() => logged() >= requests, "all requests are counted");
  text = await admin.text("/stats");
  types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = "", type = ""]) => [name, type]));
  const families = new Map<string, Set<string>>();
  for (const [, sample = "", list = ""] of text.matchAll(/^([a-z]\w*)(?:\{(.*)\})? \S+$/gm)) {
    const base = sample.replace(/_(bucket|sum|count)$/, "");
    const family = types.has(sample) ? sample : base;
    const names = families.get(family) ?? new Set<string>();
    for (const [, name = ""] of list.matchAll(/(\w+)="/g)) if (name !== "le") names.add(name);
    families.set(family, names);
  }
  labels = families;
});

afterAll(async () => {
  await admin.stop();
  await service.stop();
});

/** Rows that the program itself registers, or only beside a store. */
const OF_THE_PROGRAM = ["svc_ratelimit_store_up", "svc_tls_certificate_expiry_timestamp_seconds"];

describe("the measurements", () => {
  test("the metrics are those of the table, with its types and labels", () => {
    const rows = Object.entries(METRICS);
    const ours = [...types].filter(([name]) => /^svc_|^nodejs_eventloop_utilization/.test(name));
    const wanted = rows.map(([name, { type }]) => [name, type]).filter(([name = ""]) => !OF_THE_PROGRAM.includes(name));
    expect(ours.sort()).toEqual(wanted.sort());
    for (const [name, row] of rows) {
      const known = labels.get(name);
      if (known) expect([name, [...known].sort()]).toEqual([name, [...row.labels].sort()]);
    }
  });

  test("the measurements have the configured number of endpoints of a cluster", async () => {
    const registry = new Registry();
    const clusters = clustersSchema.parse([
      { model: "svc-qwen", endpoints: [], expectedEndpoints: 3 },
      { model: "svc-glm53", endpoints: [] },
    ]);
    registerClusterGauges(
      new GatewayMetrics(registry),
      new ClusterManager(clusters, systemClock, pino({ enabled: false })),
    );
    const said = await registry.getSingleMetricAsString("svc_cluster_expected_endpoints");
    expect(said.split("\n").filter((line) => !line.startsWith("#"))).toEqual([
      'svc_cluster_expected_endpoints{cluster="svc-qwen"} 3',
    ]);
  });

  test("the metrics have no key or text of a request, and the id of a key only in the metrics of its use", () => {
    const id = service.gateway.key.split("_")[2] ?? "";
    for (const secret of [CANARY, service.gateway.key, "req_"]) expect(text).not.toContain(secret);
    const naming = text.split("\n").filter((line) => line.includes(id));
    expect(naming.length).toBeGreaterThan(0);
    expect(naming.filter((line) => !line.startsWith("svc_key_"))).toEqual([]);
  });

  test("the metrics count unknown names as other, so that callers cannot create series", () => {
    const models = new Set([...text.matchAll(/[{,]model="([^"]*)"/g)].map(([, model]) => model));
    const ours: readonly string[] = [...CATALOG.map(({ id }) => id), "other"];
    expect([...models].filter((model) => !ours.includes(model ?? ""))).toEqual([]);
    expect(text).toMatch(
      /svc_http_requests_total\{route="unknown",format="none",code="404",outcome="client_error"\} \d/,
    );
  });

  test("the metrics distinguish the priorities of waiting requests", () => {
    for (const name of ["high", "default", "low"])
      expect(text).toContain(`svc_queue_depth{model="svc-qwen",class="${name}"} 0`);
    expect(text).toMatch(/svc_queue_wait_seconds_count\{model="svc-qwen",class="low"\} 1/);
  });
});
