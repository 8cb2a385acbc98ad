import { beforeEach, describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { type DnsAnswer, DnsServer, whyNoOwnResolver } from "../../support/dns-server.ts";
import { type ClosedLoop, closedLoop, tallyOf } from "../../support/processes/closed-loop.ts";
import type { EngineProcess } from "../../support/processes/engine-process.ts";
import { Fleet, healthy, nothingOpen, SHORT, size } from "../../support/processes/fleet.ts";
import type { GatewayProcess } from "../../support/processes/gateway-process.ts";

/*
 * I1: endpoints by DNS under load. The gateway's resolver uses a name server of the test; nodes have addresses of
 * 127.0.0.0/8 and one port, as behind a headless service.
 */

const why = whyNoOwnResolver();
if (why) process.stdout.write(`endpoints by DNS are not tested: ${why}\n`);

const CLIENTS = size(8, 40);
/** Addresses of this process only: two tests may run at a time. */
const [high, low] = [Math.floor(process.pid / 256) % 128, process.pid % 256];
const addressOf = (host: number) => `127.${high + 64}.${low}.${host}`;
const HOSTS = [1, 2, 3] as const;

const fleet = new Fleet();
let dns: DnsServer;

beforeEach(async () => {
  dns = await DnsServer.start(addressOf(253));
  fleet.onEnd(() => dns.stop());
});

/** All on the port of the first one. */
async function nodesByAddress(): Promise<readonly EngineProcess[]> {
  const first = await fleet.engine("node1", SHORT, undefined, { host: addressOf(1) });
  const port = Number(first.address.split(":").at(-1));
  const others = HOSTS.slice(1).map((host) =>
    fleet.engine(`node${host}`, SHORT, undefined, { host: addressOf(host), port }),
  );
  return [first, ...(await Promise.all(others))];
}

async function askingDns(nodes: readonly EngineProcess[]): Promise<GatewayProcess> {
  const port = nodes[0]?.address.split(":").at(-1);
  const cluster = { type: "strict_dns", address: `engines.test:${port}` };
  return fleet.gateway(cluster, {}, dns.through);
}

async function hasOnly(gateway: GatewayProcess, nodes: readonly EngineProcess[], hosts: readonly number[]) {
  for (const [index, { address }] of nodes.entries()) {
    if (hosts.includes(index + 1)) await healthy(gateway, address);
    else await becomes(async () => (await gateway.health(address)) === undefined, `${address} is gone`);
  }
}

async function flow(load: ClosedLoop): Promise<void> {
  const before = load.ended.length;
  await becomes(async () => load.ended.length > before + CLIENTS, "requests flow");
}

function faults(gateway: GatewayProcess): readonly unknown[] {
  return gateway.process.log.filter(({ fault }) => fault !== undefined).map(({ fault }) => fault);
}

describe.skipIf(why)("I1 endpoints by DNS", () => {
  test("I1 empty or failing DNS changes no endpoints, and is used again when it recovers", async () => {
    const nodes = await nodesByAddress();
    let [known, next] = [
      [1, 2],
      [2, 3],
    ];
    dns.answer = known.map(addressOf);
    const gateway = await askingDns(nodes);
    await hasOnly(gateway, nodes, known);
    const load = closedLoop(gateway, CLIENTS);
    const wrong: readonly DnsAnswer[] = ["NXDOMAIN", "SERVFAIL", []];
    for (const [earlier, fault] of wrong.entries()) {
      dns.answer = fault;
      await becomes(async () => faults(gateway).length > earlier, `the fault is noticed: ${fault}`);
      const asked = dns.questions;
      await becomes(async () => dns.questions > asked + 2, "it is asked again and again");
      await hasOnly(gateway, nodes, known);
      await flow(load);
      dns.answer = next.map(addressOf);
      await hasOnly(gateway, nodes, next);
      [known, next] = [next, known];
    }
    const ended = await load.finish(load.ended.length);
    expect(tallyOf(ended)).toEqual({ complete: ended.length });
    // Each fault is logged once, however often DNS is queried.
    const said = expect.stringMatching(/^engines\.test: E[A-Z_]+$/);
    expect(faults(gateway)).toEqual(wrong.map(() => said));
    await nothingOpen(gateway, nodes);
  });

  test("I1 and J6 a gateway that starts without DNS is not ready until it answers", async () => {
    const nodes = await nodesByAddress();
    dns.answer = "silence";
    const gateway = await askingDns(nodes);
    const ready = async () => (await fetch(`${gateway.adminUrl}/ready`)).status;
    await becomes(async () => faults(gateway).length > 0, "the fault is noticed");
    expect(await ready()).toBe(503);
    dns.answer = [addressOf(3)];
    await becomes(async () => (await ready()) === 200, "it is ready");
    await hasOnly(gateway, nodes, [3]);
  });

  test("I1 200 addresses are 200 endpoints, and those that live are used", async () => {
    const nodes = await nodesByAddress();
    dns.answer = Array.from({ length: 200 }, (_, index) => addressOf(index + 1));
    const gateway = await askingDns(nodes);
    await hasOnly(gateway, nodes, HOSTS);
    const clusters = await (await fetch(`${gateway.adminUrl}/clusters`)).text();
    expect(clusters.match(/::health_flags::/g)).toHaveLength(200);
    const load = closedLoop(gateway, CLIENTS);
    await flow(load);
    dns.answer = HOSTS.map(addressOf);
    await becomes(
      async () => (await (await fetch(`${gateway.adminUrl}/clusters`)).text()).match(/::health_flags::/g)?.length === 3,
      "the others are gone",
    );
    const ended = await load.finish(load.ended.length);
    expect(tallyOf(ended)).toEqual({ complete: ended.length });
  });
});
