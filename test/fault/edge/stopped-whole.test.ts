import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { run } from "../../../gateway/keys/cli/main.ts";
import { becomes } from "../../support/becomes.ts";
import { type Edge, Http1Caller, Http2Caller } from "../../support/edge/edge-caller.ts";
import { edgeCertificates } from "../../support/edge/edge-rig.ts";
import { HAS_ENVOY, NO_ENVOY, startEnvoy } from "../../support/edge/envoy-process.ts";
import { freePort } from "../../support/free-port.ts";
import { ANSWER_PATHS, bodyFor, foldedText } from "../../support/http/answer-check.ts";
import { metricSum } from "../../support/metric-text.ts";
import { show, size } from "../../support/processes/fleet.ts";
import { FleetProcess } from "../../support/processes/fleet-process.ts";
import { createKey } from "../../support/processes/key-command.ts";
import { endKindsOf, openStreams } from "../../support/processes/open-streams.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";

/*
 * The parts of the compose file as processes, which are all stopped under running answers. Their configurations are the
 * shipped ones except for hosts, ports and the simulated engine.
 */

const ROOT = join(import.meta.dirname, "../../..");
const COMPOSE = join(ROOT, "deploy/compose");
const STREAMS = size(12, 40);
const FOLDED = size(6, 10);
/** Answers of 25 s: they outlast every grace time. */
const LONG = { kind: "simulator", tokensPerSecond: 12, answerTokens: { min: 300, max: 300 }, slots: 60 };

const shipped = (path: string) =>
  parse(readFileSync(join(COMPOSE, path), "utf8").replace("$" + "{HOSTNAME}", "engine"), { merge: true });

type Service = { readonly depends_on?: readonly string[]; readonly command?: readonly string[] };
const services: Readonly<Record<string, Service>> = shipped("compose.yaml").services;

/** The processes of a service. */
type Part = { readonly stop: () => void; readonly ended: Promise<unknown> };

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function startNode(at: number) {
  const config = shipped("config/engine.yaml");
  const own = { nodeId: `engine-${at}`, backend: LONG, metrics: { port: 0 } };
  const listen = { host: "127.0.0.1", port: await freePort() };
  const { process } = await FleetProcess.start("test/support/engine/main.js", { ...config, ...own, listen });
  closing.push(() => process.end());
  return { process, address: `127.0.0.1:${listen.port}` };
}

async function startWhole() {
  const folder = mkdtempSync(join(tmpdir(), "svc-whole-"));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  const key = await createKey(join(folder, "keys.json"), "--name", "first", "--models", "all");
  const io = { stdin: process.stdin, out: () => {}, err: () => {}, env: {}, nowMs: Date.now };
  expect(await run(["sealing-key", "create", join(folder, "sealing-key")], io)).toBe(0);
  const certificates = edgeCertificates();
  closing.push(() => certificates.remove());
  const redis = await RedisProcess.start(...(services.valkey?.command ?? []).slice(1));
  closing.push(() => redis.end());
  const nodes = await Promise.all([0, 1, 2].map(startNode));
  const startGateway = async () => {
    const config = shipped("config/gateway.yaml");
    const places = { port: await freePort(), healthPort: await freePort(), grpcPort: await freePort() };
    const host = "127.0.0.1";
    config.listen = { host, port: places.port };
    config.health = { host, port: places.healthPort };
    config.admin = { host, port: 0 };
    const tls = { certFile: certificates.file("gateway.pem"), keyFile: certificates.file("gateway.key") };
    config.grpc = { host, port: places.grpcPort, tls };
    config.keys.file = join(folder, "keys.json");
    config.sealingKeyFile = join(folder, "sealing-key");
    config.state.redis.url = `redis://${redis.address}`;
    config.clusters = [{ model: "svc-qwen", endpoints: nodes.map(({ address }) => ({ address })) }];
    const { process } = await FleetProcess.start("gateway/main.js", config);
    closing.push(() => process.end());
    return { process, places };
  };
  const gateways = [await startGateway(), await startGateway()] as const;
  // As the compose file runs it: by the script, or alone.
  const drains = services.envoy?.command?.includes("/etc/envoy/edge.sh") ?? false;
  const upstreams = gateways.map(({ places }) => places);
  const envoy = await startEnvoy(upstreams, certificates, (text) => text, drains ? { graceS: 15 } : undefined);
  closing.push(() => envoy.end());
  const all = (processes: readonly FleetProcess[]): Part => ({
    stop: () => {
      for (const process of processes) process.signal("SIGTERM");
    },
    ended: Promise.all(processes.map(({ ended }) => ended)),
  });
  let valkeyStopped = () => {};
  const valkeyEnded = new Promise<number>((resolve) => {
    valkeyStopped = () => void redis.stop().then(() => resolve(0));
  });
  const parts: Readonly<Record<string, Part>> = {
    envoy: { stop: () => envoy.signal("SIGTERM"), ended: envoy.ended },
    "gateway-1": all([gateways[0].process]),
    "gateway-2": all([gateways[1].process]),
    engine: all(nodes.map(({ process }) => process)),
    valkey: { stop: valkeyStopped, ended: valkeyEnded },
  };
  const edge: Edge = { port: envoy.port, ca: readFileSync(certificates.file("authority.pem")), key };
  const healthPorts = gateways.map(({ places }) => places.healthPort);
  const running = async () => {
    const texts = await Promise.all(
      healthPorts.map(async (port) => (await fetch(`http://127.0.0.1:${port}/metrics`)).text()),
    );
    return texts.reduce((sum, text) => sum + metricSum(text, "svc_endpoint_rq_active"), 0);
  };
  return { parts, edge, running, gateways: gateways.map(({ process }) => process) };
}

/** Stops the parts as compose does: each after all that depend on it have ended. Resolves to what ended, in that order. */
async function stopAsCompose(parts: Readonly<Record<string, Part>>): Promise<readonly string[]> {
  const order: string[] = [];
  const stops = new Map<string, Promise<void>>();
  const stop = (name: string): Promise<void> => {
    const known = stops.get(name);
    if (known) return known;
    const dependents = Object.keys(parts).filter((other) => services[other]?.depends_on?.includes(name));
    const stopped = Promise.all(dependents.map(stop)).then(async () => {
      parts[name]?.stop();
      await parts[name]?.ended;
      order.push(name);
    });
    stops.set(name, stopped);
    return stopped;
  };
  await Promise.all(Object.keys(parts).map(stop));
  return order;
}

async function stopAtOnce(parts: Readonly<Record<string, Part>>): Promise<readonly string[]> {
  for (const { stop } of Object.values(parts)) stop();
  await Promise.all(Object.values(parts).map(({ ended }) => ended));
  return Object.keys(parts);
}

const MISSING = [...(HAS_ENVOY ? [] : [NO_ENVOY]), ...(HAS_REDIS ? [] : [NO_REDIS])];

describe.skipIf(MISSING.length > 0)(`the whole is stopped under answers ${MISSING.join(", ")}`, () => {
  test.each([
    ["in compose's order", stopAsCompose],
    ["at once, as a host's shutdown does", stopAtOnce],
  ] as const)("%s: none is cut", { timeout: 300_000 }, async (how, stopAll) => {
    const { parts, edge, running, gateways } = await startWhole();
    const callers = [new Http1Caller(edge), new Http2Caller(edge)];
    const streams = (await Promise.all(callers.map((caller) => openStreams(caller, STREAMS / 2)))).flat();
    const folded = Array.from({ length: FOLDED }, async (_, at) => {
      const path = ANSWER_PATHS[at % ANSWER_PATHS.length] ?? "/v1/messages";
      try {
        const answer = await (callers[at % 2] ?? callers[0])?.post(path, bodyFor(path, `whole ${at}`));
        return `${answer?.status} ${foldedText(path, (await answer?.text()) ?? "") ? "whole" : "empty"}`;
      } catch (error) {
        return `cut: ${error}`;
      }
    });
    await becomes(async () => (await running()) === STREAMS + FOLDED, "all run");
    const reading = Promise.all([endKindsOf(streams), Promise.all(folded)]);
    const order = await stopAll(parts);
    // Answers without an end are cut here, as no part is left that could send it.
    await Promise.race([reading, sleep(5_000)]);
    for (const caller of callers) caller.close();
    const [ends, wholes] = await reading;
    const codes = await Promise.all(["envoy", "gateway-1", "gateway-2", "engine"].map((name) => parts[name]?.ended));
    const warned = gateways.flatMap(({ log }) => log).filter(({ level }) => Number(level) >= 40);
    show(`the whole is stopped ${how}`, { streams: ends.length, folded: wholes.length, order, warned: warned.length });
    expect(ends).toEqual(ends.map(() => "complete"));
    expect(wholes).toEqual(wholes.map(() => "200 whole"));
    expect(codes).toEqual([0, [0], [0], [0, 0, 0]]);
    if (stopAll !== stopAsCompose) return;
    expect(order[0]).toBe("envoy");
    expect(order.slice(1, 3).sort()).toEqual(["gateway-1", "gateway-2"]);
    // They had their store and nodes to the end.
    expect(warned).toEqual([]);
  });
});
