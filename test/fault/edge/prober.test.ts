import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import type { LookupFunction } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "node:tls";
import { pino } from "pino";
import { Registry } from "prom-client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ProberConfig, proberConfigSchema } from "../../../deploy/prober/config.ts";
import { Edge } from "../../../deploy/prober/edge.ts";
import { METRICS, Prober } from "../../../deploy/prober/prober.ts";
import { PERIODS, type PromiseName, promisesOf } from "../../../deploy/prober/promises.ts";
import { Metrics } from "../../../deploy/runtime/metrics/metric-table.ts";
import { becomes } from "../../support/becomes.ts";
import type { Certificates } from "../../support/certificates.ts";
import { edgeCertificates } from "../../support/edge/edge-rig.ts";
import { type EnvoyProcess, HAS_ENVOY, NO_ENVOY, startEnvoy } from "../../support/edge/envoy-process.ts";
import { freePort } from "../../support/free-port.ts";
import {
  HAS_ALERTMANAGER,
  NO_ALERTMANAGER,
  startAlertmanager,
  startReceiver,
} from "../../support/monitoring/alertmanager-process.ts";
import { EngineProcess } from "../../support/processes/engine-process.ts";
import { show } from "../../support/processes/fleet.ts";
import { FleetProcess } from "../../support/processes/fleet-process.ts";
import { createKey, keyCommand } from "../../support/processes/key-command.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

/*
 * The prober in front of the shipped Envoy, two gateways with a store, two nodes and Alertmanager: each fault is seen as
 * a promise that was not proven within its minutes, and no other promise suffers. The prober's own minutes are virtual;
 * what it does is real.
 */

const RPM = 7;
const MINUTE_MS = 60_000;

const MISSING = [
  ...(HAS_ENVOY ? [] : [NO_ENVOY]),
  ...(HAS_REDIS ? [] : [NO_REDIS]),
  ...(HAS_ALERTMANAGER ? [] : [NO_ALERTMANAGER]),
  ...(canMount() ? [] : ["no full disk: a file system of a fixed size cannot be mounted here"]),
];

function canMount(): boolean {
  const folder = mkdtempSync(join(tmpdir(), "svc-disk-"));
  try {
    mountDisk(folder);
    execFileSync("umount", [folder]);
    return true;
  } catch {
    return false;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function mountDisk(folder: string): void {
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=512k", "none", folder], { stdio: "pipe" });
}

const closing: (() => unknown)[] = [];
let certificates: Certificates;
let redis: RedisProcess;
let hasStore = true;
let nodes: EngineProcess[];
let envoy: EnvoyProcess;
let receiver: Awaited<ReturnType<typeof startReceiver>>;
let receiverRefuses = false;
/** The folder of the key file, and the link by which the second gateway reads it. */
let keys: { readonly folder: string; readonly link: string; readonly file: string; readonly elsewhere: string };
let limitKey: string;
let revokedKey: string;
let config: ProberConfig;
/** The address that the name server gives for the edge. */
let address = "127.0.0.1";

const lookup: LookupFunction = (_name, { all }, done) => {
  if (all) done(null, [{ address, family: 4 }]);
  else done(null, address, 4);
};

const idOf = (key: string) => key.split("_")[2] ?? "";

async function startGateway(keyFile: string) {
  const [port, healthPort, grpcPort] = [await freePort(), await freePort(), await freePort()];
  const tls = { certFile: certificates.file("gateway.pem"), keyFile: certificates.file("gateway.key") };
  const endpoints = nodes.map(({ address }) => ({ address }));
  const own = {
    listen: { port },
    admin: { port: 0 },
    health: { port: healthPort },
    grpc: { port: grpcPort, tls },
    keys: { file: keyFile },
    state: { redis: { url: `redis://${redis.address}` } },
    clusters: [{ model: "svc-qwen", endpoints, circuitBreakers: { noEndpointHoldMs: 1_000 } }],
    timeouts: { pendingTimeoutMs: 1_000 },
    xffNumTrustedHops: 1,
  };
  const { process } = await FleetProcess.start("gateway/main.js", own);
  closing.push(() => process.end());
  return { port, healthPort, grpcPort };
}

async function startAll(): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), "svc-prober-"));
  closing.push(() => rmSync(root, { recursive: true, force: true }));
  const folder = join(root, "keys");
  keys = { folder, link: join(root, "link"), file: join(folder, "keys.json"), elsewhere: join(root, "elsewhere") };
  mkdirSync(folder);
  mountDisk(folder);
  closing.push(() => execFileSync("umount", [folder]));
  symlinkSync(folder, keys.link);
  const written = async (name: string, ...options: string[]) => {
    const key = await createKey(keys.file, "--name", name, "--models", "svc-qwen", ...options);
    writeFileSync(join(root, name), key, { mode: 0o600 });
    return key;
  };
  await written("prober", "--load-tests");
  limitKey = await written("limit", "--rpm", String(RPM));
  revokedKey = await written("revocation");
  certificates = edgeCertificates();
  closing.push(() => certificates.remove());
  certificates.signed("ended", "authority", "DNS:localhost,IP:127.0.0.1", -1);
  certificates.authority("stranger");
  certificates.signed("other", "stranger", "DNS:localhost");
  redis = await RedisProcess.start();
  closing.push(() => redis.end());
  nodes = [await EngineProcess.start("one"), await EngineProcess.start("two")];
  closing.push(() => Promise.all(nodes.map((node) => node.kill())));
  const gateways = [await startGateway(keys.file), await startGateway(join(keys.link, "keys.json"))];
  envoy = await startEnvoy(gateways, certificates);
  closing.push(() => envoy.end());
  receiver = await startReceiver(() => receiverRefuses);
  closing.push(() => receiver.end());
  const alertmanager = await startAlertmanager(receiver.url, "1s");
  closing.push(() => alertmanager.end());
  const watchdog = [{ labels: { alertname: "SvcWatchdog", severity: "none" } }];
  const alerts = `http://${alertmanager.address}/api/v2/alerts`;
  const sent = await fetch(alerts, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(watchdog),
  });
  expect(sent.status).toBe(200);
  const gatewayConfig = join(root, "gateway.yaml");
  writeFileSync(gatewayConfig, JSON.stringify({ keys: { file: keys.file } }));
  config = proberConfigSchema.parse({
    edge: { url: `https://localhost:${envoy.port}`, caFile: certificates.file("authority.pem") },
    model: "svc-qwen",
    keyFile: join(root, "prober"),
    limit: { keyFile: join(root, "limit"), rpm: RPM },
    revocation: { keyFile: join(root, "revocation"), gatewayConfig },
    alertmanagerUrl: `http://${alertmanager.address}`,
  });
}

/** A prober of some promises, whose minutes pass as the test says. */
class Watch {
  readonly #clock = new VirtualClock("2026-01-01T00:00:00Z");
  readonly #registry = new Registry();
  readonly #stop = new AbortController();
  readonly #prober: Prober;
  readonly #ended: Promise<void>;
  readonly #step: number;
  readonly #names: readonly PromiseName[];
  /** The reasons of promises that were not kept, as `chat status_503`. */
  readonly reasons = new Set<string>();

  constructor(names: readonly PromiseName[]) {
    this.#names = names;
    this.#step = Math.min(...names.map((name) => PERIODS[name].every), 10);
    const clock = this.#clock;
    const promises = promisesOf(config, { edge: new Edge(config.edge, lookup), clock })
      .filter(({ name }) => names.includes(name as PromiseName))
      .map((one) => (one.name === "limit" ? { ...one, prove: rested(one.prove) } : one));
    const write = (line: string) => {
      const { promise, reason } = JSON.parse(line);
      if (reason) this.reasons.add(`${promise} ${reason}`);
    };
    this.#prober = new Prober({
      promises,
      clock,
      metrics: new Metrics(METRICS, this.#registry),
      log: pino({}, { write }),
    });
    this.#ended = this.#prober.run(this.#stop.signal);
  }

  /** Lets minutes pass, in each of which all proofs end that are due. */
  async pass(minutes: number): Promise<void> {
    for (let passed = 0; passed < minutes; passed += this.#step) {
      await this.#clock.advance(this.#step * MINUTE_MS);
      while (this.#prober.busy > 0) {
        await sleep(20);
        // Waits inside a proof; it is given up after two minutes, which are some 24 s here.
        await this.#clock.advance(100);
      }
    }
  }

  /** The promises that raise an alert now. */
  async unproven(): Promise<readonly string[]> {
    const text = await this.#registry.metrics();
    const value = (name: string, promise: string) =>
      Number(new RegExp(`^${name}\\{promise="${promise}"\\} (.*)$`, "m").exec(text)?.[1]);
    const age = (promise: string) =>
      this.#clock.wallMs() / 1000 - value("svc_promise_proven_timestamp_seconds", promise);
    return this.#names.filter((name) => age(name) > value("svc_promise_within_seconds", name));
  }

  async allProven(): Promise<void> {
    await becomes(
      async () => {
        await this.pass(this.#step);
        return (await this.unproven()).length === 0;
      },
      `${this.#names} are proven (${[...this.reasons]})`,
      120_000,
    );
  }

  async end(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
  }
}

/** The minutes of the gateways are real, and pass too slowly for a key of so many requests a minute to be rested. */
function rested(prove: (signal: AbortSignal) => Promise<boolean>) {
  return async (signal: AbortSignal) => {
    if (hasStore) await redis.ask("FLUSHALL");
    return prove(signal);
  };
}

/** Resolves when the edge shows the certificate with these letters in its subject. */
function shows(name: string): Promise<void> {
  const subject = () =>
    new Promise<string>((resolve, reject) => {
      const socket = connect({ port: envoy.port, host: "127.0.0.1", rejectUnauthorized: false }, () => {
        resolve(String(socket.getPeerCertificate().subject.CN));
        socket.destroy();
      });
      socket.on("error", reject);
    });
  return becomes(async () => (await subject()) === name, `the edge shows ${name}`);
}

function pointLinkTo(folder: string): void {
  symlinkSync(folder, `${keys.link}.new`);
  renameSync(`${keys.link}.new`, keys.link);
}

async function startOther(at: number, backend: object): Promise<void> {
  const port = Number(nodes[at]?.address.split(":").at(-1));
  await nodes[at]?.kill();
  nodes[at] = await EngineProcess.start("other", backend, ["svc-qwen"], { port });
}

const ANSWERS = ["chat", "messages", "responses"] as const;

type Fault = {
  readonly name: string;
  readonly breaks: () => unknown;
  /** Absent: the fault is the last one. */
  readonly mends?: () => unknown;
  readonly unproven: readonly PromiseName[];
  /** Promises beside it that are still proven. */
  readonly proven: readonly PromiseName[];
};

let closeOther = () => {};

const FAULTS: readonly Fault[] = [
  {
    name: "an expired certificate",
    breaks: () => {
      certificates.show("ended");
      return shows("ended");
    },
    mends: () => {
      certificates.show("first");
      return shows("first");
    },
    ...{ unproven: [...ANSWERS, "certificate"], proven: ["alerts"] },
  },
  {
    name: "a wrong DNS record",
    breaks: async () => {
      const pems = {
        cert: readFileSync(certificates.file("other.pem")),
        key: readFileSync(certificates.file("other.key")),
      };
      const server = createServer(pems, (_, response) => response.end("{}"));
      await new Promise<void>((resolve) => server.listen(envoy.port, "127.0.0.2", resolve));
      closeOther = () => server.close();
      address = "127.0.0.2";
    },
    mends: () => {
      closeOther();
      address = "127.0.0.1";
    },
    ...{ unproven: [...ANSWERS, "certificate"], proven: ["alerts"] },
  },
  {
    name: "a wrong limit",
    breaks: () => keyCommand(keys.file, "set-limits", idOf(limitKey), "--rpm", "20"),
    mends: () => keyCommand(keys.file, "set-limits", idOf(limitKey), "--rpm", String(RPM)),
    ...{ unproven: ["limit"], proven: ["revocation"] },
  },
  {
    name: "a revocation that one of two gateways has lost",
    breaks: async () => {
      await keyCommand(keys.file, "enable", idOf(revokedKey));
      // Locks of the running gateways come and go meanwhile.
      cpSync(keys.folder, keys.elsewhere, { recursive: true, filter: (source) => !source.endsWith(".lock") });
      pointLinkTo(keys.elsewhere);
    },
    mends: () => pointLinkTo(keys.folder),
    ...{ unproven: ["revocation"], proven: ["limit"] },
  },
  {
    name: "a full disk",
    breaks: () => {
      try {
        for (let at = 0; ; at += 1) writeFileSync(join(keys.folder, `full-${at}`), Buffer.alloc(1_024));
      } catch (error) {
        expect(error).toMatchObject({ code: "ENOSPC" });
      }
    },
    mends: () => execFileSync("sh", ["-c", `rm ${keys.folder}/full-*`]),
    ...{ unproven: ["revocation"], proven: ["limit"] },
  },
  {
    name: "a dead store",
    breaks: async () => {
      hasStore = false;
      await redis.stop();
    },
    mends: async () => {
      await redis.startAgain();
      hasStore = true;
    },
    ...{ unproven: ["limit"], proven: ["revocation"] },
  },
  {
    name: "a dead receiver of alerts",
    breaks: () => (receiverRefuses = true),
    mends: () => (receiverRefuses = false),
    ...{ unproven: ["alerts"], proven: ["chat"] },
  },
  {
    name: "a continuation that is broken, as the other node has another model",
    breaks: () => startOther(1, { seed: 99 }),
    mends: () => startOther(1, {}),
    ...{ unproven: ["continuation"], proven: ["limit"] },
  },
  {
    name: "one of two nodes dead",
    breaks: () => nodes[1]?.kill(),
    mends: () => nodes[1]?.startAgain(),
    ...{ unproven: ["continuation"], proven: ["limit"] },
  },
  {
    name: "all nodes dead",
    breaks: () => Promise.all(nodes.map((node) => node.kill())),
    mends: () => Promise.all(nodes.map((node) => node.startAgain())),
    ...{ unproven: [...ANSWERS], proven: ["certificate", "alerts"] },
  },
  {
    name: "a dead edge",
    breaks: () => envoy.end(),
    ...{ unproven: [...ANSWERS, "certificate"], proven: ["alerts"] },
  },
];

describe.skipIf(MISSING.length > 0)(`the prober ${MISSING.join(", ")}`, () => {
  beforeAll(startAll, 120_000);
  afterAll(async () => {
    for (const close of closing.reverse()) await close();
  });

  test("the prober runs as a program, proves every promise and ends on SIGTERM", async () => {
    // A proof that comes too early, while gateways ask what nodes can, is repeated only after minutes.
    const first = new Watch(Object.keys(PERIODS) as PromiseName[]);
    await first.allProven();
    await first.end();
    await redis.ask("FLUSHALL");
    const { process, ready } = await FleetProcess.start<{ promises: readonly string[]; metricsPort: number }>(
      "deploy/prober/main.js",
      { ...config, metrics: { port: 0 } },
    );
    closing.push(() => process.end());
    expect(ready.promises).toEqual(Object.keys(PERIODS));
    const text = async () => (await fetch(`http://127.0.0.1:${ready.metricsPort}/metrics`)).text();
    const waiting = async () =>
      [...(await text()).matchAll(/^svc_promise_proven_timestamp_seconds\{promise="(\w+)"\} 0$/gm)].map(
        ([, name]) => name,
      );
    // Of Alertmanager it takes two looks a minute apart.
    await becomes(async () => (await waiting()).join() === "alerts", "all others are proven");
    expect(await text()).toMatch(/svc_tls_certificate_expiry_timestamp_seconds\{role="peer"\} \d{10}/);
    process.signal("SIGTERM");
    expect(await process.ended).toBe(0);
    expect(process.log.filter(({ level }) => Number(level) >= 40)).toEqual([]);
    const logged = JSON.stringify(process.log);
    for (const secret of [limitKey, revokedKey, "Count from"]) expect(logged).not.toContain(secret);
  });

  test.each(FAULTS)("the prober sees $name within its minutes", async ({ name, breaks, mends, unproven, proven }) => {
    const watch = new Watch([...unproven, ...proven]);
    try {
      await watch.allProven();
      await breaks();
      watch.reasons.clear();
      // The last proof was before the fault.
      await watch.pass(Math.max(...unproven.map((one) => PERIODS[one].within)) + 1);
      show(name, { unproven: await watch.unproven(), reasons: [...watch.reasons] });
      expect(await watch.unproven()).toEqual(unproven);
      if (!mends) return;
      await mends();
      await watch.allProven();
    } finally {
      await watch.end();
    }
  });
});
