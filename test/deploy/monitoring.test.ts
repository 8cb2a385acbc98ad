import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { engine } from "../../deploy/monitoring/dashboards/engine.ts";
import { fleet } from "../../deploy/monitoring/dashboards/fleet.ts";
import { keys } from "../../deploy/monitoring/dashboards/keys.ts";
import { ALERTS_FILE, alertRules } from "../support/monitoring/alert-rules.ts";
import { noPromtool, promtool } from "../support/tools/promtool.ts";

const folder = mkdtempSync(join(tmpdir(), "svc-monitoring-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Writes a file for promtool, as JSON, which YAML is a form of. Returns its path. */
function written(name: string, value: object): string {
  const path = join(folder, name);
  writeFileSync(path, JSON.stringify(value));
  return path;
}

/** Series by their names with labels, each with its values minute by minute in promtool's notation. */
type Series = Readonly<Record<string, string>>;

/** What an alert is told apart by: series with which it is raised after the minutes, and others with which it is not. */
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
  // What callers do wrong counts for nothing.
  'svc_http_requests_total{outcome="client_error",instance="a"}': "0+5000x600",
});
const streams = (broken: number): Series => ({
  'svc_stream_end_total{reason="engine_died"}': `0+${broken}x60`,
  'svc_stream_end_total{reason="complete"}': "0+1000x60",
  'svc_stream_end_total{reason="client_closed"}': "0+500x60",
});
const members = (healthy: string): Series => ({
  'svc_cluster_membership{cluster="svc-qwen",instance="a"}': "4x200",
  'svc_cluster_membership{cluster="svc-qwen",instance="b"}': "4x200",
  'svc_cluster_membership_healthy{cluster="svc-qwen",instance="a"}': `${healthy}x200`,
  'svc_cluster_membership_healthy{cluster="svc-qwen",instance="b"}': `${healthy}x200`,
});
const gauge = (series: string, raised: string, quiet: string, minutes: number): Case => ({
  minutes,
  raised: { [series]: `${raised}x200` },
  quiet: { [series]: `${quiet}x200` },
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

/** A case for every alert; one without fails the test below. */
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
  SvcModelWithoutEndpoint: { minutes: 5, raised: members("0"), quiet: members("1") },
  SvcRequestsHeld: gauge('svc_cluster_upstream_rq_held{cluster="c"}', "2", "0", 5),
  SvcEndpointsMissing: { minutes: 10, raised: members("1"), quiet: members("2") },
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
  SvcGatewayShedsLoad: gauge('svc_overload_action_active{action="reject_non_critical"}', "1", "0", 5),
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
};

/** Returns why promtool does not agree that the alert is raised with the series, or is not; empty where it does. */
function disagreement(alert: string, { minutes, ...series }: Case, state: "raised" | "quiet"): string {
  const path = written(`${alert}-${state}.json`, {
    rule_files: [ALERTS_FILE],
    // Every rule is worked out at every step.
    evaluation_interval: minutes > 200 ? "10m" : "1m",
    tests: [
      {
        interval: "1m",
        input_series: Object.entries(series[state]).map(([name, values]) => ({ series: name, values })),
        promql_expr_test: [
          {
            expr: `count(ALERTS{alertname="${alert}",alertstate="firing"}) > bool 0 or vector(0)`,
            eval_time: `${minutes}m`,
            exp_samples: [{ labels: "{}", value: state === "raised" ? 1 : 0 }],
          },
        ],
      },
    ],
  });
  const { code, said } = promtool(["test", "rules", path]);
  return code === 0 ? "" : said;
}

describe.skipIf(noPromtool !== "")("promtool", () => {
  test("finds nothing wrong with the alerts and the configuration of Prometheus", () => {
    expect(promtool(["check", "rules", ALERTS_FILE])).toMatchObject({ code: 0 });
    const config = fileURLToPath(new URL("../../deploy/monitoring/prometheus.yaml", import.meta.url));
    expect(promtool(["check", "config", config])).toMatchObject({ code: 0 });
  });

  test("understands every query of the dashboards", () => {
    const panels = [fleet, keys, engine].flatMap(({ rows }) => rows).flatMap((row) => row.panels);
    const queries = panels.flatMap((panel) => panel.queries.map(([expr]) => expr.replaceAll("$__rate_interval", "1m")));
    const rules = queries.map((expr, at) => ({ record: `query_${at}`, expr }));
    expect(
      promtool(["check", "rules", written("queries.json", { groups: [{ name: "queries", rules }] })]),
    ).toMatchObject({
      code: 0,
    });
  });

  test.each(Object.entries(CASES))("raises %s when it should, and not otherwise", (alert, given) => {
    expect(disagreement(alert, given, "raised")).toBe("");
    expect(disagreement(alert, given, "quiet")).toBe("");
  });
});

test("every alert has a case", () => {
  const alerts = alertRules().flatMap(({ alert }) => (alert ? [alert] : []));
  expect(Object.keys(CASES).sort()).toEqual([...alerts].sort());
});
