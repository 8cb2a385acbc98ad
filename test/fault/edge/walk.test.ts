import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { run } from "../../../gateway/keys/cli/main.ts";
import { becomes } from "../../support/becomes.ts";
import { Certificates } from "../../support/certificates.ts";
import { DnsServer, whyNoOwnResolver } from "../../support/dns-server.ts";
import {
  type EdgeUpstream,
  type EnvoyProcess,
  HAS_ENVOY,
  NO_ENVOY,
  startEnvoy,
} from "../../support/edge/envoy-process.ts";
import { ANSWER_PATHS, bodyFor } from "../../support/http/answer-check.ts";
import { alertRules } from "../../support/monitoring/alert-rules.ts";
import {
  HAS_ALERTMANAGER,
  NO_ALERTMANAGER,
  startAlertmanager,
  startReceiver,
} from "../../support/monitoring/alertmanager-process.ts";
import { DASHBOARDS } from "../../support/monitoring/dashboards.ts";
import {
  HAS_PROMETHEUS,
  NO_PROMETHEUS,
  type PrometheusProcess,
  startPrometheus,
} from "../../support/monitoring/prometheus-process.ts";
import { show, size } from "../../support/processes/fleet.ts";
import { FleetProcess } from "../../support/processes/fleet-process.ts";
import { createKey } from "../../support/processes/key-command.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";

/*
 * A new user's walk through deploy/compose without containers: the services of the compose file with the shipped
 * configurations; only hosts and paths are those of the test. Services find each other by the names of the compose file
 * in a name server of the test: a dead one is removed, as in docker's DNS. FULL=1 uses the demonstration model, and
 * Prometheus's shipped intervals.
 */

const ROOT = join(import.meta.dirname, "../../..");
const COMPOSE = join(ROOT, "deploy/compose");
const GATEWAYS = 2;
const ENGINES = 3;
const FASTER = size(15, 1);
/** Longest wait until every panel has data: two scrapes after the first answers of each engine. */
const DATA_MS = size(40_000, 180_000);
/** Longest wait until an alert is pending, and until it fires. */
const PENDING_MS = 60_000;
const FIRING_MS = 300_000;
const NO_RESOLVER = whyNoOwnResolver();
const HAS_CURL = spawnSync("curl", ["--version"]).status === 0;
const NEEDED = [
  [HAS_ENVOY, NO_ENVOY],
  [HAS_REDIS, NO_REDIS],
  [HAS_PROMETHEUS, NO_PROMETHEUS],
  [HAS_ALERTMANAGER, NO_ALERTMANAGER],
  [HAS_CURL, "curl is not installed"],
  [NO_RESOLVER === undefined, NO_RESOLVER],
] as const;
const MISSING = NEEDED.flatMap(([there, why]) => (there ? [] : [why]));

/** The panel without data on a machine without GPUs. */
const OF_GPUS = "GPU memory";

const shipped = (path: string, env: Readonly<Record<string, string>> = {}) =>
  parse(readFileSync(join(COMPOSE, path), "utf8").replaceAll(/\$\{(\w+)\}/g, (_, name) => env[name] ?? ""));
/** Returns an address of this process only, as a container has one. */
const addressOf = (host: number) => `127.${64 + (Math.floor(process.pid / 256) % 128)}.${process.pid % 256}.${host}`;
const ENGINE_HOSTS = Array.from({ length: ENGINES }, (_, at) => addressOf(1 + at));
const GATEWAY_HOSTS = Array.from({ length: GATEWAYS }, (_, at) => addressOf(101 + at));

const closing: (() => unknown)[] = [];
let engines: readonly FleetProcess[];
let gateways: readonly FleetProcess[];
let dns: DnsServer;
let envoy: EnvoyProcess;
let prometheus: PrometheusProcess;
/** What the receiver of alerts was called for, as `firing SvcEngineDown`. */
let called: ReadonlySet<string>;
let certificates: Certificates;
let key: string;

async function startEngine(host: string, at: number): Promise<FleetProcess> {
  const config = shipped("config/engine.yaml", { HOSTNAME: `engine-${at}` });
  Object.assign(config.listen, { host });
  Object.assign(config.metrics, { host });
  const small = { kind: "simulator", tokensPerSecond: 100, answerTokens: { min: 20, max: 40 } };
  config.backend = FASTER > 1 ? small : { ...config.backend, modelPath: join(ROOT, "engine/demo-model/demo.gguf") };
  const { process } = await FleetProcess.start("test/support/engine/main.js", config);
  closing.push(() => process.end());
  return process;
}

async function startGateway(
  host: string,
  folder: string,
  store: string,
): Promise<{ readonly process: FleetProcess; readonly upstream: EdgeUpstream }> {
  const config = shipped("config/gateway.yaml");
  for (const listener of [config.listen, config.health, config.admin, config.grpc]) listener.host = host;
  config.keys.file = join(folder, "keys.json");
  config.sealingKeyFile = join(folder, "sealing-key");
  config.state.redis.url = `redis://${store}`;
  config.grpc.tls = { certFile: certificates.file("gateway.pem"), keyFile: certificates.file("gateway.key") };
  const { process } = await FleetProcess.start("gateway/main.js", config, dns.through);
  closing.push(() => process.end());
  const { listen, health, grpc } = config;
  return { process, upstream: { host, port: listen.port, healthPort: health.port, grpcPort: grpc.port } };
}

/** Starts the prober with keys as the page has them made. Resolves to the address of its metrics. */
async function startProber(folder: string, alertmanagerUrl: string): Promise<string> {
  const made = async (name: string, ...options: string[]) => {
    const text = await createKey(join(folder, "keys.json"), "--name", name, "--models", "svc-qwen", ...options);
    writeFileSync(join(folder, name), text, { mode: 0o600 });
    return join(folder, name);
  };
  const config = shipped("config/prober.yaml");
  Object.assign(config.edge, { url: `https://localhost:${envoy.port}`, caFile: certificates.file("authority.pem") });
  config.keyFile = await made("prober", "--load-tests");
  config.limit.keyFile = await made("prober-limit", "--rpm", "7");
  const gatewayConfig = join(folder, "gateway.yaml");
  writeFileSync(gatewayConfig, JSON.stringify({ keys: { file: join(folder, "keys.json") } }));
  config.revocation = { keyFile: await made("prober-revoked"), gatewayConfig };
  const metrics = { host: "127.0.0.1", port: 0 };
  const started = await FleetProcess.start<{ metricsPort: number }>("deploy/prober/main.js", {
    ...config,
    alertmanagerUrl,
    metrics,
  });
  closing.push(() => started.process.end());
  return `127.0.0.1:${started.ready.metricsPort}`;
}

async function startAll(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "svc-walk-"));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  key = await createKey(join(folder, "keys.json"), "--name", "first", "--models", "all");
  const io = { stdin: process.stdin, out: () => {}, err: () => {}, env: {}, nowMs: Date.now };
  expect(await run(["sealing-key", "create", join(folder, "sealing-key")], io)).toBe(0);
  certificates = new Certificates();
  closing.push(() => certificates.remove());
  certificates.authority("gateways-ca");
  certificates.signed("gateway", "gateways-ca", "DNS:svc-gateway");
  certificates.authority("authority");
  certificates.signed("live", "authority", "DNS:localhost");
  const { services } = parse(readFileSync(join(COMPOSE, "compose.yaml"), "utf8"), { merge: true });
  const redis = await RedisProcess.start(...services.valkey.command.slice(1));
  closing.push(() => redis.end());
  dns = await DnsServer.start(addressOf(253));
  closing.push(() => dns.stop());
  engines = await Promise.all(ENGINE_HOSTS.map(startEngine));
  dns.answers.set("engine", ENGINE_HOSTS).set("gateway", GATEWAY_HOSTS);
  for (const [at, host] of GATEWAY_HOSTS.entries()) dns.answers.set(`gateway-${at + 1}`, [host]);
  const started = await Promise.all(GATEWAY_HOSTS.map((host) => startGateway(host, folder, redis.address)));
  gateways = started.map(({ process }) => process);
  envoy = await startEnvoy(
    started.map(({ upstream }) => upstream),
    certificates,
  );
  closing.push(() => envoy.end());
  const receiver = await startReceiver();
  closing.push(() => receiver.end());
  called = receiver.called;
  const alertmanager = await startAlertmanager(receiver.url);
  closing.push(() => alertmanager.end());
  prometheus = await startPrometheus({
    ...{ faster: FASTER, through: dns.through },
    targets: ENGINES + GATEWAYS + 3,
    places: {
      prober: await startProber(folder, `http://${alertmanager.address}`),
      envoy: `127.0.0.1:${envoy.metricsPort}`,
      alertmanager: alertmanager.address,
    },
  });
  closing.push(() => prometheus.end());
}

async function curl(path: string, body?: object): Promise<readonly [status: string, text: string]> {
  const args = ["--silent", "--cacert", certificates.file("authority.pem"), "--write-out", "\n%{http_code}"];
  const sent = body ? ["--json", JSON.stringify(body)] : [];
  const url = `https://localhost:${envoy.port}${path}`;
  const { stdout } = await promisify(execFile)("curl", [...args, ...sent, "-H", `authorization: Bearer ${key}`, url]);
  const end = stdout.lastIndexOf("\n");
  return [stdout.slice(end + 1), stdout.slice(0, end)];
}

function shippedQueries(): readonly (readonly [title: string, expr: string])[] {
  return (
    DASHBOARDS.flatMap(({ charts }) => charts)
      .filter(({ title }) => title !== OF_GPUS)
      .flatMap(({ title, targets = [] }) => targets.map(({ expr }) => [title, expr] as const))
      // A speed needs prompts of 4,000 tokens, which the window of this model does not hold.
      .filter(([, expr]) => !expr.includes('svc_engine_tokens_per_second{phase="prefill"'))
  );
}

async function askAll(): Promise<readonly string[]> {
  const asked = ANSWER_PATHS.flatMap((path) =>
    [true, false].map((stream) => curl(path, bodyFor(path, "hello", { stream }))),
  );
  return (await Promise.all(asked)).map(([status]) => status);
}

/** Resolves when the alert fires: it is pending within a minute from `fromMs` and fires within five, with requests going on. */
async function raised(fromMs: number, name: string): Promise<void> {
  const within = async (states: readonly ("pending" | "firing")[], limitMs: number) => {
    const reached = async () => {
      expect(await askAll()).toEqual(ANSWER_PATHS.flatMap(() => ["200", "200"]));
      const alerts = (await Promise.all(states.map((state) => prometheus.alerts(state)))).flat();
      return alerts.includes(name);
    };
    await becomes(reached, `${name} is ${states.join(" or ")}`, fromMs + limitMs - Date.now());
  };
  await within(["pending", "firing"], PENDING_MS);
  const pendingMs = Date.now() - fromMs;
  await within(["firing"], FIRING_MS);
  show(name, { faster: FASTER, pendingMs, firingMs: Date.now() - fromMs });
}

beforeAll(async () => {
  if (MISSING.length === 0) await startAll();
}, 300_000);
afterAll(async () => {
  for (const close of closing.reverse()) await close();
});

describe.skipIf(MISSING.length > 0)(`the parts of the compose file${MISSING.map((why) => ` (${why})`)}`, () => {
  test("the parts of the compose file answer curl through TLS, and every panel of the dashboards and every alert has data", async () => {
    const [status, models] = await curl("/v1/models");
    expect([status, JSON.parse(models).data.map(({ id }: { id: string }) => id)]).toEqual(["200", ["svc-qwen"]]);
    // A rate needs two scrapes.
    const window = `${4 * prometheus.scrapeSeconds + 1}s`;
    const asked = (expr: string) =>
      expr.replaceAll("$__rate_interval", window).replaceAll(/\$(?:model|instance)\b/g, ".*");
    const has = async (expr: string) => (await prometheus.query(expr)).some(({ value }) => value[1] !== "NaN");
    const queries = shippedQueries().map(([title, expr]) => [title, asked(expr)] as const);
    let empty: readonly string[] = [];
    await becomes(
      async () => {
        expect(await askAll()).toEqual(ANSWER_PATHS.flatMap(() => ["200", "200"]));
        const found = await Promise.all(
          queries.map(async ([title, expr]) => ((await has(expr)) ? [] : [`${title}: ${expr}`])),
        );
        empty = found.flat();
        return empty.length === 0;
      },
      "every query has data",
      DATA_MS,
    ).catch((error: unknown) => {
      expect(empty).toEqual([]);
      throw error;
    });
    // Of nodes beside another engine, which none here is.
    const names = new Set([...(await prometheus.names()), "svc_engine_own_rendering"]);
    const inAlerts = alertRules().flatMap(({ expr }) => expr.match(/\b(?:svc|nodejs|process)_\w+/g) ?? []);
    expect([...new Set(inAlerts)].filter((name) => !names.has(name))).toEqual([]);
    await becomes(async () => called.has("firing SvcWatchdog"), "the receiver is called while all is well", FIRING_MS);
    expect([...called]).toEqual(["firing SvcWatchdog"]);
  });

  test(
    "call the receiver for certificates that end in ten days, of the edge and of gateways, until they are renewed",
    async () => {
      const renew = (days: number) => {
        certificates.signed("gateway", "gateways-ca", "DNS:svc-gateway", days);
        certificates.signed("edge", "authority", "DNS:localhost", days);
        certificates.show("edge");
      };
      renew(10);
      const ending = async () =>
        (await prometheus.query('ALERTS{alertname="SvcCertificateEndsSoon"}')).map(
          ({ metric }) => metric.role ?? "edge",
        );
      const fleet = [...GATEWAY_HOSTS.map(() => "own"), "edge"].sort();
      await becomes(async () => (await ending()).sort().join() === fleet.join(), "an alert fires for each", FIRING_MS);
      await becomes(async () => called.has("firing SvcCertificateEndsSoon"), "the receiver is called", FIRING_MS);
      expect(await prometheus.alerts("firing")).toEqual(fleet.map(() => "SvcCertificateEndsSoon"));
      renew(30);
      await becomes(async () => (await prometheus.alerts("firing")).length === 0, "the alerts have ended", FIRING_MS);
      await becomes(async () => called.has("resolved SvcCertificateEndsSoon"), "it is called for the end", FIRING_MS);
      expect(await askAll()).toEqual(ANSWER_PATHS.flatMap(() => ["200", "200"]));
    },
    2 * FIRING_MS,
  );

  test(
    "continue to answer while a node is stopped, and an alert fires",
    async () => {
      expect(await prometheus.alerts("firing")).toEqual([]);
      const fromMs = Date.now();
      engines[0]?.signal("SIGSTOP");
      await raised(fromMs, "SvcEngineDown");
      expect(await prometheus.alerts("firing")).toEqual(["SvcEngineDown"]);
      await becomes(async () => called.has("firing SvcEngineDown"), "the receiver is called", FIRING_MS);
      engines[0]?.signal("SIGCONT");
      await becomes(async () => (await prometheus.alerts("firing")).length === 0, "the alert has ended", FIRING_MS);
      await becomes(async () => called.has("resolved SvcEngineDown"), "the receiver is called for the end", FIRING_MS);
    },
    2 * FIRING_MS,
  );

  test(
    "continue to answer when a node and a gateway are killed and removed from DNS, and alerts fire",
    async () => {
      expect(await prometheus.alerts("firing")).toEqual([]);
      const fromMs = Date.now();
      engines[0]?.signal("SIGKILL");
      gateways[0]?.signal("SIGKILL");
      // A name server drops dead containers. An endpoint that is dropped while it serves has left on purpose.
      await Promise.all([engines[0]?.ended, gateways[0]?.ended]);
      dns.answers.set("engine", ENGINE_HOSTS.slice(1)).set("gateway", GATEWAY_HOSTS.slice(1)).delete("gateway-1");
      // Envoy does not retry a request that a dead gateway may have received, and drops its connections at once.
      const healthy = () => envoy.stat("cluster.gateways.membership_healthy");
      await becomes(async () => (await healthy()) === GATEWAYS - 1, "Envoy has one gateway");
      await raised(fromMs, "SvcEndpointsGone");
      const both = async () => (await prometheus.alerts("firing")).includes("SvcGatewayDown");
      await becomes(both, "the other alert fires, too", fromMs + FIRING_MS - Date.now());
      expect([...(await prometheus.alerts("firing"))].sort()).toEqual(["SvcEndpointsGone", "SvcGatewayDown"]);
      const calls = async () => called.has("firing SvcEndpointsGone") && called.has("firing SvcGatewayDown");
      await becomes(calls, "the receiver is called for both", FIRING_MS);
    },
    3 * FIRING_MS,
  );
});
