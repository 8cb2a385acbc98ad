import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { run } from "../../../gateway/keys/cli/main.ts";
import { becomes } from "../../support/becomes.ts";
import { Certificates } from "../../support/certificates.ts";
import { type EdgeUpstream, EnvoyProcess, HAS_ENVOY, NO_ENVOY } from "../../support/edge/envoy-process.ts";
import { freePort } from "../../support/free-port.ts";
import { ANSWER_PATHS, bodyFor } from "../../support/http/answer-check.ts";
import { alertRules } from "../../support/monitoring/alert-rules.ts";
import { HAS_PROMETHEUS, NO_PROMETHEUS, PrometheusProcess } from "../../support/monitoring/prometheus-process.ts";
import { size } from "../../support/processes/fleet.ts";
import { FleetProcess } from "../../support/processes/fleet-process.ts";
import { createKey } from "../../support/processes/key-command.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";

/*
 * A new user's walk through deploy/compose without containers: the parts of the compose file with the shipped
 * configurations, in which addresses and paths are those of the test. FULL=1 takes the demonstration model, and the
 * times of Prometheus as they are.
 */

const ROOT = join(import.meta.dirname, "../../..");
const COMPOSE = join(ROOT, "deploy/compose");
const GATEWAYS = 2;
const ENGINES = 3;
const FASTER = size(15, 1);
/** The longest until an alert is raised: a look at the node, a minute of none, and a look at the rules. */
const ALERT_MS = size(40_000, 120_000);
const HAS_CURL = spawnSync("curl", ["--version"]).status === 0;
const NEEDED = [
  [HAS_ENVOY, NO_ENVOY],
  [HAS_REDIS, NO_REDIS],
  [HAS_PROMETHEUS, NO_PROMETHEUS],
  [HAS_CURL, "curl is not installed"],
] as const;
const MISSING = NEEDED.flatMap(([there, why]) => (there ? [] : [why]));

/** What a dashboard's file has of its panels; rows have no queries. */
type Board = { readonly panels: readonly { title: string; targets?: readonly { expr: string }[] }[] };

/** The panel that shows nothing on a machine without what it is about. */
const OF_GPUS = "GPU memory";

const shipped = (path: string, env: Readonly<Record<string, string>> = {}) =>
  parse(readFileSync(join(COMPOSE, path), "utf8").replaceAll(/\$\{(\w+)\}/g, (_, name) => env[name] ?? ""));
const local = async () => ({ host: "127.0.0.1", port: await freePort() });

const closing: (() => unknown)[] = [];
const engines: FleetProcess[] = [];
let envoy: EnvoyProcess;
let prometheus: PrometheusProcess;
let certificates: Certificates;
let key: string;

/** Starts the engines; resolves to the addresses of their contract and of their metrics. */
async function startEngines() {
  return await Promise.all(
    Array.from({ length: ENGINES }, async (_, at) => {
      const config = shipped("config/engine.yaml", { HOSTNAME: `engine-${at}` });
      Object.assign(config, { listen: await local(), metrics: await local() });
      const small = { kind: "simulator", tokensPerSecond: 100, answerTokens: { min: 20, max: 40 } };
      config.backend = FASTER > 1 ? small : { ...config.backend, modelPath: join(ROOT, "engine/demo-model/demo.gguf") };
      const { process } = await FleetProcess.start("engine/main.js", config);
      closing.push(() => process.end());
      engines.push(process);
      return { address: `127.0.0.1:${config.listen.port}`, metrics: `127.0.0.1:${config.metrics.port}` };
    }),
  );
}

/** Starts the gateways in front of these engines; resolves to their ports. */
async function startGateways(folder: string, nodes: readonly string[], store: string): Promise<EdgeUpstream[]> {
  return await Promise.all(
    Array.from({ length: GATEWAYS }, async () => {
      const config = shipped("config/gateway.yaml");
      Object.assign(config, { listen: await local(), health: await local(), admin: await local() });
      config.keys.file = join(folder, "keys.json");
      config.sealingKeyFile = join(folder, "sealing-key");
      config.state.redis.addresses = [store];
      const tls = { certFile: certificates.file("gateway.pem"), keyFile: certificates.file("gateway.key") };
      config.grpc = { ...(await local()), tls };
      config.clusters = [{ model: config.clusters[0].model, endpoints: nodes.map((address) => ({ address })) }];
      const { process } = await FleetProcess.start("gateway/main.js", config);
      closing.push(() => process.end());
      return { port: config.listen.port, healthPort: config.health.port, grpcPort: config.grpc.port };
    }),
  );
}

async function startAll(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "svc-walk-"));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  key = await createKey(join(folder, "keys.json"), "--name", "first", "--models", "all", "--rpm", "100000");
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
  const nodes = await startEngines();
  const gateways = await startGateways(
    folder,
    nodes.map(({ address }) => address),
    redis.address,
  );
  envoy = await EnvoyProcess.start(gateways, certificates);
  closing.push(() => envoy.end());
  prometheus = await PrometheusProcess.start({
    faster: FASTER,
    targets: {
      "svc-gateway": gateways.map(({ healthPort }) => `127.0.0.1:${healthPort}`),
      "svc-engine": nodes.map(({ metrics }) => metrics),
    },
  });
  closing.push(() => prometheus.end());
}

/** Asks with curl, as the README of the compose file does; resolves to the status and the body. */
async function curl(path: string, body?: object): Promise<readonly [status: string, text: string]> {
  const args = ["--silent", "--cacert", certificates.file("authority.pem"), "--write-out", "\n%{http_code}"];
  const sent = body ? ["--json", JSON.stringify(body)] : [];
  const url = `https://localhost:${envoy.port}${path}`;
  const { stdout } = await promisify(execFile)("curl", [...args, ...sent, "-H", `authorization: Bearer ${key}`, url]);
  const end = stdout.lastIndexOf("\n");
  return [stdout.slice(end + 1), stdout.slice(0, end)];
}

/** Returns the queries of all panels of the shipped dashboards, each with the title of its panel. */
function shippedQueries(): readonly (readonly [title: string, expr: string])[] {
  const folder = join(ROOT, "deploy/monitoring/grafana");
  const boards = readdirSync(folder).map((file): Board => JSON.parse(readFileSync(join(folder, file), "utf8")));
  return boards
    .flatMap(({ panels }) => panels)
    .filter(({ title }) => title !== OF_GPUS)
    .flatMap(({ title, targets = [] }) => targets.map(({ expr }) => [title, expr] as const));
}

/** Has each format answer with a stream and in one piece; resolves to the statuses. */
async function askAll(): Promise<readonly string[]> {
  const asked = ANSWER_PATHS.flatMap((path) =>
    [true, false].map((stream) => curl(path, bodyFor(path, "hello", { stream }))),
  );
  return (await Promise.all(asked)).map(([status]) => status);
}

beforeAll(async () => {
  if (MISSING.length === 0) await startAll();
}, 300_000);
afterAll(async () => {
  for (const close of closing.reverse()) await close();
});

describe.skipIf(MISSING.length > 0)(`the parts of the compose file${MISSING.map((why) => ` (${why})`)}`, () => {
  test("answer curl through TLS, and every panel of the dashboards and every alert has data", async () => {
    const [status, models] = await curl("/v1/models");
    expect([status, JSON.parse(models).data.map(({ id }: { id: string }) => id)]).toEqual(["200", ["svc-qwen"]]);
    // Two scrapes are needed for a rate.
    const window = `${4 * prometheus.scrapeSeconds + 1}s`;
    const asked = (expr: string) =>
      expr.replaceAll("$__rate_interval", window).replaceAll(/\$(?:model|instance)\b/g, ".*");
    const queries = shippedQueries().map(([title, expr]) => [title, asked(expr)] as const);
    let empty: readonly string[] = [];
    await becomes(async () => {
      expect(await askAll()).toEqual(ANSWER_PATHS.flatMap(() => ["200", "200"]));
      const found = await Promise.all(
        queries.map(async ([title, expr]) => ((await prometheus.query(expr)).length > 0 ? [] : [`${title}: ${expr}`])),
      );
      empty = found.flat();
      return empty.length === 0;
    }, "every query has data").catch(() => expect(empty).toEqual([]));
    const names = await prometheus.names();
    const inAlerts = alertRules().flatMap(({ expr }) => expr.match(/\b(?:svc|nodejs|process)_\w+/g) ?? []);
    expect([...new Set(inAlerts)].filter((name) => !names.has(name))).toEqual([]);
  });

  test(
    "go on answering when a node is killed, and an alert says so",
    async () => {
      expect(await prometheus.alerts("firing")).toEqual([]);
      engines[0]?.signal("SIGKILL");
      const raised = async () => {
        expect(await askAll()).toEqual(ANSWER_PATHS.flatMap(() => ["200", "200"]));
        return (await prometheus.alerts("firing")).includes("SvcEngineDown");
      };
      await becomes(raised, "the alert is raised", ALERT_MS);
      expect(await prometheus.alerts("firing")).toEqual(["SvcEngineDown"]);
    },
    2 * ALERT_MS,
  );
});
