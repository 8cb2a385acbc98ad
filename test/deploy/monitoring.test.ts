import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Histogram } from "prom-client";
import { afterAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { METRICS as PROBER } from "../../deploy/prober/prober.ts";
import { Metrics, type MetricTable } from "../../deploy/runtime/metrics/metric-table.ts";
import { processRegistry } from "../../deploy/runtime/metrics/process-metrics.ts";
import { METRICS as ENGINE } from "../../engine/metrics/metrics.ts";
import { METRICS as GATEWAY } from "../../gateway/stats/metrics.ts";
import { ALERTS_FILE, alertRules } from "../support/monitoring/alert-rules.ts";
import { DASHBOARDS, queriesOf } from "../support/monitoring/dashboards.ts";
import { noPromtool, promtool } from "../support/tools/promtool.ts";

const folder = mkdtempSync(join(tmpdir(), "svc-monitoring-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Writes a file for promtool as JSON, a subset of YAML. Returns its path. */
function written(name: string, value: object): string {
  const path = join(folder, name);
  writeFileSync(path, JSON.stringify(value));
  return path;
}

/** Series by their names with labels, each with its values minute by minute in promtool's notation. */
type Series = Readonly<Record<string, string>>;

/** Series that raise an alert after the minutes, and others that do not. */
type Case = { readonly minutes: number; readonly raised: Series; readonly quiet: Series };

/** Makes a histogram of an observation a second, all of which lie between two of its bounds. */
function slow(name: string, labels: string, above: number, below: number): Series {
  const comma = labels && ",";
  return {
    [`${name}_bucket{${labels}${comma}le="${above}"}`]: "0x600",
    [`${name}_bucket{${labels}${comma}le="${below}"}`]: "0+60x600",
    [`${name}_bucket{${labels}${comma}le="+Inf"}`]: "0+60x600",
  };
}

const failing = (failed: number): Series => ({
  'svc_http_requests_total{outcome="server_error",instance="a"}': `0+${failed}x600`,
  'svc_http_requests_total{outcome="ok",instance="a"}': `0+${1_000 - failed}x600`,
  // Client errors do not count.
  'svc_http_requests_total{outcome="client_error",instance="a"}': "0+5000x600",
});
const streams = (broken: number): Series => ({
  'svc_stream_end_total{reason="engine_died"}': `0+${broken}x60`,
  'svc_stream_end_total{reason="complete"}': "0+1000x60",
  'svc_stream_end_total{reason="client_closed"}': "0+500x60",
});
const members = (healthy: string, cluster = "svc-qwen"): Series => ({
  [`svc_cluster_membership{cluster="${cluster}",instance="a"}`]: "4x200",
  [`svc_cluster_membership{cluster="${cluster}",instance="b"}`]: "4x200",
  [`svc_cluster_membership_healthy{cluster="${cluster}",instance="a"}`]: `${healthy}x200`,
  [`svc_cluster_membership_healthy{cluster="${cluster}",instance="b"}`]: `${healthy}x200`,
});
const gauge = (series: string, raised: string, quiet: string, minutes: number): Case => ({
  minutes,
  raised: { [series]: `${raised}x200` },
  quiet: { [series]: `${quiet}x200` },
});
/** A certificate that ends in so many days; the clock of promtool begins at 0. */
const certificate = (raised: number, quiet: number): Case =>
  gauge(
    'svc_tls_certificate_expiry_timestamp_seconds{role="own",instance="a"}',
    String(raised * 86_400),
    String(quiet * 86_400),
    5,
  );
const membership = (course: string): Series => ({
  'svc_cluster_membership{cluster="c",instance="a"}': course,
  'svc_cluster_membership{cluster="c",instance="b"}': course,
});
/** A promise of 90 minutes that was proven last after so many minutes, of a prober that began at the first. */
const promise = (minutes: number, last: number): Series => ({
  'svc_promise_proven_timestamp_seconds{promise="limit",instance="a"}': `0x${minutes} ${last * 60}x140`,
  'svc_promise_within_seconds{promise="limit",instance="a"}': "5400x200",
  'process_start_time_seconds{job="svc-prober",instance="a"}': "0x200",
});
/** Two gateways as scrape targets, of which the second takes this course. */
const targets = (course: string, first = "1x120"): Series => ({
  'up{job="svc-gateway",instance="a"}': first,
  'up{job="svc-gateway",instance="b"}': course,
});
const sealing = (second: string): Series => ({
  'svc_sealing_keys{key_id="1",does="seals",instance="a"}': "1x60",
  [`svc_sealing_keys{key_id="${second}",does="seals",instance="b"}`]: "1x60",
  'svc_sealing_keys{key_id="3",does="opens",instance="b"}': "1x60",
});
const discovery = (failures: string, successes: string): Series => ({
  'svc_cluster_update_failure_total{cluster="c"}': `${failures}x60`,
  'svc_cluster_update_rejected_total{cluster="c"}': "0x60",
  'svc_cluster_update_success_total{cluster="c"}': `${successes}x60`,
});
const cached = (today: number): Series => ({
  'svc_engine_tokens_total{type="input"}': "0+1000x1800",
  'svc_engine_tokens_total{type="cached"}': `0+800x1440 1152000+${today}x360`,
});

/** A case for every alert; an alert without one fails the test below. */
const CASES: Readonly<Record<string, Case>> = {
  SvcRequestsFailFast: { minutes: 90, raised: failing(100), quiet: failing(50) },
  SvcRequestsFailSlowly: { minutes: 400, raised: failing(40), quiet: failing(20) },
  SvcStreamsBreakOff: { minutes: 30, raised: streams(5), quiet: streams(1) },
  SvcFirstTokenLate: {
    minutes: 40,
    raised: slow("svc_time_to_first_token_seconds", 'model="m"', 40, 80),
    quiet: slow("svc_time_to_first_token_seconds", 'model="m"', 10, 20),
  },
  SvcCancelsLate: {
    minutes: 40,
    raised: slow("svc_cancel_latency_seconds", "", 0.1, 0.25),
    quiet: slow("svc_cancel_latency_seconds", "", 0.025, 0.05),
  },
  SvcNoTraffic: {
    minutes: 1_440 + 60,
    raised: { 'svc_http_requests_total{outcome="ok",instance="a"}': "0+60x1470 88200x60" },
    quiet: { 'svc_http_requests_total{outcome="ok",instance="a"}': "0x1440 0x60" },
  },
  SvcWatchdog: { minutes: 5, raised: {}, quiet: {} },
  SvcAlertsUndelivered: gauge(
    'alertmanager_notifications_failed_total{integration="webhook",instance="a"}',
    "0+1",
    "7",
    15,
  ),
  SvcPromiseUnproven: { minutes: 100, raised: promise(60, 0), quiet: promise(60, 60) },
  SvcProberDown: gauge('up{job="svc-prober",instance="a"}', "0", "1", 10),
  SvcEdgeDown: gauge('up{job="svc-edge",instance="a"}', "0", "1", 5),
  SvcCertificateEndsSoon: certificate(13, 15),
  SvcCertificateEnds: certificate(-1, 3),
  SvcModelWithoutEndpoint: {
    minutes: 5,
    raised: members("0"),
    quiet: { ...members("1"), ...members("0", "c/prefill") },
  },
  SvcRequestsHeld: gauge('svc_cluster_upstream_rq_held{cluster="c"}', "2", "0", 5),
  SvcEndpointsMissing: { minutes: 10, raised: members("1"), quiet: members("2") },
  SvcEndpointsGone: gauge('svc_cluster_membership_lost{cluster="c"}', "1", "0", 5),
  SvcEndpointEjected: gauge('svc_cluster_outlier_ejections_active{cluster="c"}', "1", "0", 20),
  SvcEndpointDrainForgotten: gauge('svc_cluster_membership_draining{cluster="c"}', "1", "0", 130),
  SvcQueueWaitsLong: {
    minutes: 30,
    raised: slow("svc_queue_wait_seconds", 'model="m"', 10, 20),
    quiet: slow("svc_queue_wait_seconds", 'model="m"', 2.5, 5),
  },
  SvcRetryBudgetSpent: gauge('svc_cluster_upstream_rq_retry_overflow_total{cluster="c"}', "0+1", "7", 15),
  SvcRequestOfDeath: gauge('svc_request_of_death_total{cluster="c"}', "0+1", "7", 5),
  SvcDiscoveryFails: { minutes: 30, raised: discovery("0+12", "9"), quiet: discovery("0+2", "0+10") },
  SvcGatewayDown: gauge('up{job="svc-gateway",instance="a"}', "0", "1", 5),
  SvcGatewayGone: { minutes: 65, raised: targets("1x60 stale"), quiet: targets("0x120") },
  SvcGatewayShedsLoad: gauge('svc_overload_action_active{action="stop_accepting_requests"}', "1", "0", 5),
  SvcEventLoopLate: gauge("nodejs_eventloop_lag_p99_seconds", "0.3", "0.1", 10),
  SvcOpenFilesNearLimit: {
    minutes: 10,
    raised: { process_open_fds: "950x20", process_max_fds: "1000x20" },
    quiet: { process_open_fds: "800x20", process_max_fds: "1000x20" },
  },
  SvcLogLinesDropped: gauge("svc_log_lines_dropped_total", "0+3", "5", 5),
  SvcKeyFileBroken: gauge("svc_keystore_stale", "1", "0", 5),
  SvcKeyChangesLost: gauge("svc_keystore_went_back_total", "0+1", "7", 5),
  SvcSealingKeysDiffer: { minutes: 15, raised: sealing("2"), quiet: sealing("1") },
  SvcLimitsCountedAlone: gauge("svc_ratelimit_store_up", "0", "1", 5),
  SvcManyWithoutKey: gauge('svc_auth_failures_total{reason="api_key_invalid"}', "0+600", "0+60", 30),
  SvcEngineDown: gauge('up{job="svc-engine",instance="a"}', "0", "1", 5),
  SvcEngineStalled: gauge('svc_engine_step_age_seconds{instance="a"}', "40", "5", 5),
  SvcEngineFails: {
    minutes: 30,
    raised: { 'svc_engine_generations_total{instance="a",reason="ENGINE_DOWN"}': "0+5x60" },
    quiet: { 'svc_engine_generations_total{instance="a",reason="CANCELLED"}': "0+5x60" },
  },
  SvcEngineCacheFull: gauge("svc_engine_kv_cache_usage_ratio", "0.97", "0.9", 20),
  SvcCacheHitsFell: { minutes: 1_440 + 180, raised: cached(200), quiet: cached(600) },
  SvcEngineSchemaFault: gauge('svc_engine_caller_work_total{instance="a",outcome="failed"}', "0+1", "3", 10),
  SvcOwnRenderingOff: gauge('svc_engine_own_rendering{instance="a"}', "0", "1", 10),
};

/** Returns a promtool test that an alert fires after some minutes. */
const firing = (alert: string, after: number, raised: boolean) => ({
  expr: `count(ALERTS{alertname="${alert}",alertstate="firing"}) > bool 0 or vector(0)`,
  eval_time: `${after}m`,
  exp_samples: [{ labels: "{}", value: raised ? 1 : 0 }],
});

type RuleTest = {
  readonly name: string;
  readonly interval: string;
  readonly series: Series;
  readonly expected: readonly object[];
};

/** Returns promtool's complaint about the rules with the series of each test; empty if there is none. */
function disagreement(evaluation: string, tests: readonly RuleTest[], rules = ALERTS_FILE): string {
  const path = written("rules.json", {
    rule_files: [rules],
    evaluation_interval: evaluation,
    tests: tests.map(({ name, interval, series, expected }) => ({
      ...{ name, interval },
      input_series: Object.entries(series).map(([series, values]) => ({ series, values })),
      promql_expr_test: expected,
    })),
  });
  const { code, said } = promtool(["test", "rules", path]);
  return code === 0 ? "" : said;
}

type Rule = { readonly alert?: string; readonly record?: string };

/** Writes the groups of these alerts without their other alerts: a day is 2,880 evaluations of each. Returns the path. */
function rulesOf(...alerts: readonly string[]): string {
  const { groups } = parse(readFileSync(ALERTS_FILE, "utf8")) as { groups: { name: string; rules: Rule[] }[] };
  const isMeant = ({ alert }: Rule) => alert !== undefined && alerts.includes(alert);
  const meant = groups.filter(({ rules }) => rules.some(isMeant));
  return written(`rules-${alerts.join("-")}.json`, {
    groups: meant.map(({ name, rules }) => ({ name, rules: rules.filter((rule) => rule.record || isMeant(rule)) })),
  });
}

/**
 * Series of endpoints as gateways count them, or of gateways as targets of Prometheus, every 15 s; with the states of
 * the alert: `64m firing`, or `125m never` if it does not fire until then.
 */
type Course = readonly [what: string, series: Series, states: string];

/** Minutes of one value, in samples of 15 s. */
const minutes = (value: number | string, length: number) => `${value}x${4 * length - 1}`;
const endpoints = (...course: readonly (readonly [value: number, minutes: number])[]): Series =>
  membership(course.map(([value, length]) => minutes(value, length)).join(" "));
const expecting = (count: number): Series => ({
  'svc_cluster_expected_endpoints{cluster="c",instance="a"}': `${count}x8000`,
});
/** Makes gateways, each of which is present for some spans: minutes of absence, of presence, and so on. */
const gatewaysThere = (...spans: readonly (readonly number[])[]): Series =>
  Object.fromEntries(
    spans.map((lengths, at) => [
      `up{job="svc-gateway",instance="${at}"}`,
      lengths
        .flatMap((length, turn) =>
          length === 0 ? [] : turn % 2 === 1 ? [minutes(1, length), "stale"] : [`_x${4 * length}`],
        )
        .join(" "),
    ]),
  );

/** A count of the cluster by one gateway, which takes this course. */
const counted = (name: string, ...course: readonly (readonly [value: number, minutes: number])[]): Series => ({
  [`svc_cluster_membership_${name}{cluster="c",instance="a"}`]: course
    .map(([value, length]) => minutes(value, length))
    .join(" "),
});
/** Four nodes that are replaced one after the other, each away for five minutes. */
const replacedInTurn = <T>(there: T, away: T): readonly (readonly [T, number])[] => [
  [there, 60],
  ...Array.from({ length: 4 }, () => [[away, 5] as const, [there, 2] as const]).flat(),
  [there, 30],
];

const ENDPOINTS: readonly Course[] = [
  [
    "one of three is dead for a day",
    { ...endpoints([3, 60], [2, 1_440]), ...counted("lost", [0, 60], [1, 1_440]), ...expecting(3) },
    "59m none, 61m pending, 64m firing, 95m firing, 600m firing, 1499m firing",
  ],
  [
    "the same without a number",
    { ...endpoints([3, 60], [2, 1_440]), ...counted("lost", [0, 60], [1, 1_440]) },
    "59m none, 64m firing, 1499m firing",
  ],
  [
    "they die one after the other",
    { ...endpoints([3, 60], [2, 100], [1, 200]), ...counted("lost", [0, 60], [1, 100], [2, 200]), ...expecting(3) },
    "59m none, 64m firing, 159m firing, 220m firing, 359m firing",
  ],
  [
    "the gateways are restarted meanwhile",
    { ...endpoints([3, 60], [2, 300]), ...counted("lost", [0, 60], [1, 20], [0, 280]), ...expecting(3) },
    "59m none, 64m firing, 81m firing, 359m firing",
  ],
  [
    "one is mended",
    { ...endpoints([3, 60], [2, 100], [3, 60]), ...counted("lost", [0, 60], [1, 100], [0, 60]), ...expecting(3) },
    "64m firing, 159m firing, 161m none, 219m none",
  ],
  [
    "four are replaced one after the other, each away for five minutes",
    { ...endpoints(...replacedInTurn(4, 3)), ...counted("left", ...replacedInTurn(0, 1)), ...expecting(4) },
    "115m never",
  ],
  [
    "one that was to be replaced does not come for two hours",
    { ...endpoints([4, 60], [3, 200]), ...counted("left", [0, 60], [1, 120], [0, 80]), ...expecting(4) },
    "179m none, 184m firing, 259m firing",
  ],
  ["there are fewer on purpose", { ...endpoints([4, 60], [2, 65]), ...expecting(2) }, "120m never"],
];

const WITHOUT_ENDPOINT: readonly Course[] = [
  [
    "all are gone, and the gateways restarted since",
    {
      ...endpoints([2, 60], [0, 600]),
      ...counted("healthy", [2, 60], [0, 600]),
      ...counted("lost", [0, 60], [2, 10], [0, 590]),
      ...expecting(2),
    },
    "59m none, 62m firing, 75m firing, 110m firing, 659m firing",
  ],
  [
    "a model that is scaled to zero has none",
    {
      ...endpoints([2, 60], [0, 600]),
      ...counted("healthy", [2, 60], [0, 600]),
      ...counted("left", [0, 60], [2, 120]),
      ...expecting(0),
    },
    "600m never",
  ],
];

const GATEWAYS: readonly Course[] = [
  ["one of two is gone from discovery", gatewaysThere([0, 180], [0, 60]), "59m none, 61m pending, 64m firing"],
  ["all are gone", gatewaysThere([0, 60], [0, 60]), "64m firing"],
  [
    "two are replaced, and the old ones drain for ten minutes",
    gatewaysThere([0, 72], [0, 73], [61, 85], [62, 85]),
    "145m never",
  ],
  [
    "an autoscaler had four, and may go down to two",
    {
      ...gatewaysThere([0, 125], [0, 125], [0, 60], [0, 60]),
      'kube_horizontalpodautoscaler_spec_min_replicas{horizontalpodautoscaler="svc-gateway"}': "2x720",
    },
    "120m never",
  ],
  [
    "four became two on purpose",
    gatewaysThere([0, 125], [0, 125], [0, 60], [0, 60]),
    "65m firing, 95m none, 120m none",
  ],
];

/** A prober's metrics every 15 s: when its promise of five minutes was proven last, and when it began, in minutes. */
const proven = (
  ...course: readonly (readonly [provenAt: number | "always" | "gone", minutes: number, begun: number])[]
): Series => {
  let at = 0;
  const proofs = course.map(([value, length]) => {
    const from = at;
    at += length;
    if (value === "gone") return `_x${4 * length - 1}`;
    return value === "always" ? `${from * 60}+15x${4 * length - 1}` : minutes(value * 60, length);
  });
  const there = (value: (begun: number) => number) =>
    course
      .map(([proof, length, begun]) => (proof === "gone" ? `_x${4 * length - 1}` : minutes(value(begun), length)))
      .join(" ");
  return {
    'svc_promise_proven_timestamp_seconds{promise="chat",instance="a"}': proofs.join(" "),
    'svc_promise_within_seconds{promise="chat",instance="a"}': there(() => 300),
    'process_start_time_seconds{job="svc-prober",instance="a"}': there((begun) => begun * 60),
  };
};

const PROMISES: readonly Course[] = [
  ["is proven every minute", proven(["always", 600, 0]), "599m never"],
  [
    "is not proven for a day",
    proven(["always", 60, 0], [60, 1_440, 0]),
    "64m none, 66m firing, 600m firing, 1499m firing",
  ],
  ["is mended", proven(["always", 60, 0], [60, 60, 0], ["always", 60, 0]), "119m firing, 121m none"],
  ["was never proven", proven([0, 60, 0]), "4m none, 6m firing, 59m firing"],
  // The prober begins anew in the middle of the fault, and has no proof of its own.
  [
    "is not proven over a restart of the prober",
    proven(["always", 60, 0], [60, 10, 0], [0, 60, 70]),
    "64m none, 66m firing, 71m firing, 129m firing",
  ],
  ["is proven over a restart of the prober", proven(["always", 60, 0], [0, 1, 60], ["always", 60, 60]), "120m never"],
  ["has no prober any more", proven(["always", 60, 0], ["gone", 1_440, 0]), "64m none, 66m firing, 1499m firing"],
];

/** A course of two gateways with names of their own, as compose has them: a dead one stays a target. */
const DOWN: readonly Course[] = [
  [
    "one of two is dead for a day, and mended",
    targets(`${minutes(1, 60)} ${minutes(0, 1_440)} ${minutes(1, 60)}`, minutes(1, 1_560)),
    "59m none, 60m pending, 62m firing, 95m firing, 600m firing, 1499m firing, 1501m none, 1559m none",
  ],
];

/** A certificate that ends in ten days, and two of which are not renewed: hours pass as minutes do in other courses. */
const DAY = 1_440;
const CERTIFICATES = [
  'svc_tls_certificate_expiry_timestamp_seconds{role="own",instance="a"}',
  "envoy_server_days_until_first_cert_expiring",
] as const;

/** Returns the test of the course of an alert. */
function courseTest(alert: string, [name, series, states]: Course): RuleTest {
  const expected = states.split(", ").flatMap((text) => {
    const [time = "", state] = text.split(" ");
    const alerts = (one: string) => `ALERTS{alertname="${alert}",alertstate="${one}"}`;
    if (state === "never")
      return [{ expr: `count_over_time(${alerts("firing")}[${time}])`, eval_time: time, exp_samples: [] }];
    return ["pending", "firing"].map((one) => ({
      expr: `count(${alerts(one)}) or vector(0)`,
      eval_time: time,
      exp_samples: [{ labels: "{}", value: one === state ? 1 : 0 }],
    }));
  });
  return { name: `${alert}: ${name}`, interval: "15s", series, expected };
}

/** Resolves to the page of a process that has one series of each metric of the table. */
async function pageOf(table: MetricTable): Promise<string> {
  const metrics = new Metrics(table, processRegistry());
  for (const [name, { labels }] of Object.entries(table)) {
    const metric = metrics.metric(name);
    const series = Object.fromEntries(labels.map((label) => [label, "one"]));
    if (metric instanceof Histogram) metric.observe(series, 1);
    else metric.inc(series, 1);
  }
  return metrics.registry.metrics();
}

describe.skipIf(noPromtool !== "")("promtool", () => {
  test("promtool finds nothing wrong with the alerts and the configuration of Prometheus", () => {
    expect(promtool(["check", "rules", ALERTS_FILE])).toMatchObject({ code: 0 });
    const config = fileURLToPath(new URL("../../deploy/monitoring/prometheus.yaml", import.meta.url));
    expect(promtool(["check", "config", config])).toMatchObject({ code: 0 });
  });

  test("promtool understands every query of the dashboards", () => {
    const queries = queriesOf(DASHBOARDS.flatMap(({ charts }) => charts));
    expect(queries.length).toBeGreaterThan(40);
    const withTime = queries.map((expr) => expr.replaceAll("$__rate_interval", "1m"));
    const rules = withTime.map((expr, at) => ({ record: `query_${at}`, expr }));
    expect(
      promtool(["check", "rules", written("queries.json", { groups: [{ name: "queries", rules }] })]),
    ).toMatchObject({
      code: 0,
    });
  });

  test("promtool has a number for the panels of limits before the first request, too", () => {
    const panels = DASHBOARDS.find(({ name }) => name === "keys")?.panels ?? [];
    const end = panels.findIndex(({ type, title }) => type === "row" && title !== "Limits");
    const series = {
      'svc_ratelimit_decisions_total{dim="all",decision="allowed"}': "0x20",
      'svc_ratelimit_decisions_total{dim="rpm",decision="refused"}': "0x20",
      'svc_ratelimit_store_seconds_bucket{le="0.1"}': "0x20",
      'svc_ratelimit_store_seconds_bucket{le="+Inf"}': "0x20",
    };
    const zero = queriesOf(panels.slice(0, end)).map((expr) => ({
      expr: `sum(${expr.replaceAll("$__rate_interval", "5m")})`,
      eval_time: "10m",
      exp_samples: [{ labels: "{}", value: 0 }],
    }));
    expect(zero.length).toBeGreaterThan(3);
    expect(disagreement("1m", [{ name: "limits", interval: "1m", series, expected: zero }])).toBe("");
  });

  // Every rule is evaluated at every step.
  test.each([
    ["1m", (after: number) => after <= 200],
    ["10m", (after: number) => after > 200],
  ] as const)(
    "promtool raises each alert when it should, and not otherwise, evaluated every %s",
    (evaluation, isOf) => {
      const tests = Object.entries(CASES)
        .filter(([, { minutes: after }]) => isOf(after))
        .flatMap(([alert, { minutes: after, raised, quiet }]) =>
          (
            [
              [raised, true],
              // It fires always.
              [quiet, alert === "SvcWatchdog"],
            ] as const
          ).map(([series, fires]) => ({
            ...{ name: alert, interval: "1m", series, expected: [firing(alert, after, fires)] },
          })),
        );
      expect(disagreement(evaluation, tests)).toBe("");
    },
  );

  test("promtool raises alerts of endpoints and gateways in their courses", { timeout: 300_000 }, () => {
    const withoutTests = WITHOUT_ENDPOINT.map((course) => courseTest("SvcModelWithoutEndpoint", course));
    const endpointTests = ENDPOINTS.map((course) => courseTest("SvcEndpointsGone", course));
    const gatewayTests = GATEWAYS.map((course) => courseTest("SvcGatewayGone", course));
    const rules = rulesOf("SvcModelWithoutEndpoint", "SvcEndpointsGone", "SvcGatewayGone");
    expect(disagreement("30s", [...endpointTests, ...withoutTests, ...gatewayTests], rules)).toBe("");
  });

  test("promtool raises alerts of promises and of dead gateways in their courses", { timeout: 300_000 }, () => {
    const promiseTests = PROMISES.map((course) => courseTest("SvcPromiseUnproven", course));
    const downTests = DOWN.map((course) => courseTest("SvcGatewayDown", course));
    const rules = rulesOf("SvcPromiseUnproven", "SvcGatewayDown");
    expect(disagreement("30s", [...promiseTests, ...downTests], rules)).toBe("");
  });

  // Looked at every hour, until the certificate has ended for two days, and is renewed.
  test.each(CERTIFICATES)(
    "raises alerts of a certificate that ends in ten days, and of one that has ended: %s",
    (name) => {
      const isDays = name.startsWith("envoy");
      const left = (days: number) => (isDays ? `${days}x23` : `${days * 86_400}x23`);
      // The gauge of Envoy counts down; that of our programs is the end itself.
      const days = Array.from({ length: 30 }, (_, day) => (isDays ? Math.max(0, 17 - day) : 17));
      const series = {
        [isDays ? `${name}{instance="a"}` : name]: [...days.map(left), left(isDays ? 90 : 120)].join(" "),
      };
      const at = (day: number) => day * DAY + 60;
      const look = (alert: string, day: number, raised: boolean) => firing(alert, at(day), raised);
      const expected = [
        ...[look("SvcCertificateEndsSoon", 1, false), look("SvcCertificateEndsSoon", 7, true)],
        ...[
          look("SvcCertificateEnds", 7, false),
          look("SvcCertificateEnds", 16, true),
          look("SvcCertificateEnds", 19, true),
        ],
        ...[look("SvcCertificateEnds", 30, false), look("SvcCertificateEndsSoon", 30, false)],
      ];
      expect(disagreement("1h", [{ name, interval: "1h", series, expected }])).toBe("");
    },
  );

  test.each<readonly [string, MetricTable]>([
    ["gateway", GATEWAY],
    ["engine", ENGINE],
    ["prober", PROBER],
  ])("promtool finds no fault in the metrics of the %s, those of the platform included", async (_program, table) => {
    expect(promtool(["check", "metrics"], await pageOf(table))).toEqual({ code: 0, said: "" });
  });
});

test("every alert has a case", () => {
  const alerts = alertRules().flatMap(({ alert }) => (alert ? [alert] : []));
  expect(Object.keys(CASES).sort()).toEqual([...alerts].sort());
});
