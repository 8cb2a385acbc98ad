import { pino } from "pino";
import { checkConfig } from "../../deploy/runtime/config/load-config.ts";
import { gatewayConfigSchema } from "../../gateway/config.ts";
import type { Admitted } from "../../gateway/upstream/admission/place-search.ts";
import type { Cluster } from "../../gateway/upstream/cluster.ts";
import { ClusterAdmission } from "../../gateway/upstream/cluster-admission.ts";
import { ClusterManager } from "../../gateway/upstream/cluster-manager.ts";
import type { ClusterMember } from "../../gateway/upstream/cluster-member.ts";
import { Balancer } from "../../gateway/upstream/load-balancing/balancer.ts";
import { LB_POLICIES, type LbPolicy } from "../../gateway/upstream/load-balancing/policies.ts";
import { CacheLedger } from "../../gateway/upstream/prefixes/cache-ledger.ts";
import { HealthNode } from "../support/engine/health-node.ts";
import { HINTS, routeFor } from "../support/gateway/front-rig.ts";
import { generateRequest } from "../support/requests/generate-request.ts";
import { VirtualClock } from "../support/virtual-clock.ts";
import type { BenchResult, Row } from "./report/bench-result.ts";
import type { BenchSettings } from "./settings.ts";

const MODEL = "svc-qwen";
const FLEETS = [3, 30, 300, 1_000];
const FLEETS_QUICK = [3, 100];
/** The number of requests of one measured stretch. */
const REQUESTS = 300;
/** The number of requests that a cluster lets wait. */
const WAITING = 512;
/** The time within which a thousand endpoints have become healthy, in milliseconds. */
const HEALTHY_WITHIN_MS = 120_000;
/** The time between two look-ups of the fleet's addresses, in milliseconds. */
const LOOK_UP_MS = 1_000;
/** The time between two checks of an endpoint's health, in milliseconds: none falls due while something is measured. */
const CHECK_MS = 86_400_000;
const NEVER = new AbortController().signal;

/** The number of messages at the beginning of a conversation whose cached tokens are explained. */
const CONVERSATION = 100;
/** The number of other conversations that a gateway which has run for long remembers: more than it has room for. */
const REMEMBERED = 12_000;
/** The messages of each of them. */
const REMEMBERED_MESSAGES = 12;

/** A cluster of many endpoints, all of which are one node under many loopback addresses. */
type Fleet = {
  readonly cluster: Cluster;
  readonly manager: ClusterManager;
  readonly clock: VirtualClock;
  /** The longest time for which the start held the event loop, in milliseconds. */
  readonly startMs: number;
  /** Has discovery find so many endpoints, and resolves when that has been seen. */
  resize(count: number): Promise<void>;
};

/**
 * Measures what placing a request costs in the gateway, by the number of endpoints, and for how long an endpoint that
 * joins or leaves holds the event loop. Health and descriptions come over real gRPC.
 */
export async function placementBench({ quick, repetitions }: BenchSettings): Promise<BenchResult> {
  const node = await HealthNode.start({ models: [MODEL], host: "0.0.0.0" });
  const rows: Row[] = [];
  for (const count of quick ? FLEETS_QUICK : FLEETS) rows.push(await measured(node.port, count, 2 * repetitions));
  node.stop();
  return {
    title: "placement: pick, admission and release of one request, by the number of endpoints",
    columns: [
      { key: "endpoints", title: "endpoints", digits: 0 },
      ...LB_POLICIES.map((name) => ({ key: name, title: `${name} us` })),
      { key: "arrival", title: "arrival, all full us" },
      { key: "freed", title: `place freed, ${WAITING} wait us` },
      { key: "reason", title: "cache reason us" },
      { key: "reasonFull", title: "of a full memory us" },
      { key: "joinMs", title: "join holds ms" },
      { key: "leaveMs", title: "leave holds ms" },
      { key: "startMs", title: "start holds ms", digits: 0 },
    ],
    rows,
    notes: [
      `Least of ${2 * repetitions} stretches of ${REQUESTS} requests; of joins and leaves the middle one.`,
      "Arrival: one more waits while no endpoint has room. Freed: a request ends, and the next one gets its place.",
      `Cache reason: what it costs to explain the cached tokens of a turn, in conversations of ${CONVERSATION} to ${CONVERSATION + REQUESTS} messages; of a full memory, where the gateway has seen more than it remembers.`,
      "All times are of the processor. Holds: the longest turn of the event loop until the change is through, the connection and the ring included.",
    ],
  };
}

async function measured(port: number, count: number, repetitions: number): Promise<Row> {
  const fleet = await startFleet(port, count);
  const { cluster, manager, clock } = fleet;
  const admissionBy = (lbPolicy: LbPolicy) => {
    const { views, prefixes } = cluster;
    const onMembersChange = (listener: () => void) => cluster.onMembersChange(listener);
    const balanced = { settings: { ...cluster.settings, lbPolicy }, views, prefixes, onMembersChange };
    return new ClusterAdmission(cluster, new Balancer(balanced, manager.work, clock, Math.random), clock, Math.random);
  };
  // First of all, as every admission that is made follows the cluster's members: a gateway has one.
  await placing(admissionBy(cluster.settings.lbPolicy), 1);
  await turns();
  const joins: number[] = [];
  const leaves: number[] = [];
  for (let round = 0; round < repetitions; round += 1) {
    joins.push(await longestTurnMs(() => fleet.resize(count + 1)));
    leaves.push(await longestTurnMs(() => fleet.resize(count)));
  }
  const costs: Record<string, number> = {};
  for (const name of LB_POLICIES) costs[name] = await placing(admissionBy(name), repetitions);
  const waiting = await queueing(admissionBy("least_request"), cluster, repetitions);
  const reason = explaining(cluster, repetitions, 0);
  const reasonFull = explaining(cluster, repetitions, REMEMBERED);
  manager.close();
  const { startMs } = fleet;
  return {
    endpoints: count,
    ...costs,
    ...waiting,
    reason,
    reasonFull,
    joinMs: middle(joins),
    leaveMs: middle(leaves),
    startMs,
  };
}

/** Returns the least time that a request took to get its place and to give it back, in microseconds. */
async function placing(admission: ClusterAdmission, repetitions: number): Promise<number> {
  const once = async () => (await place(admission, 0)).release();
  await stretch(once);
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < repetitions; round += 1) least = Math.min(least, await stretch(once));
  return least;
}

/** Returns what arrivals cost while no endpoint has room, and what the end of a request while others wait. */
async function queueing(admission: ClusterAdmission, cluster: Cluster, repetitions: number) {
  const capacity = cluster.members.reduce((sum, { slots }) => sum + slots, 0);
  let arrival = Number.POSITIVE_INFINITY;
  let freed = Number.POSITIVE_INFINITY;
  for (let round = 0; round < repetitions; round += 1) {
    const running = await Promise.all(Array.from({ length: capacity }, (_, at) => place(admission, at)));
    const waits = Math.min(4 * capacity, WAITING);
    const waiting: Promise<Admitted<ClusterMember>>[] = [];
    let startedAt = cpuMs();
    for (let at = 0; at < waits; at += 1) waiting.push(place(admission, at));
    arrival = Math.min(arrival, (1_000 * (cpuMs() - startedAt)) / waits);
    const ending = running.slice(0, waits);
    startedAt = cpuMs();
    for (const one of ending) one.release();
    freed = Math.min(freed, (1_000 * (cpuMs() - startedAt)) / ending.length);
    for (const one of running) one.release();
    await Promise.all(waiting.map(async (one) => (await one).release()));
  }
  return { arrival, freed };
}

/** Returns the middle time that the reason for what was cached takes, of the quickest conversation, in microseconds. */
function explaining({ prefixes, members }: Cluster, repetitions: number, remembered: number): number {
  const ledger = new CacheLedger({
    ...{ prefixes, lifeOf: () => 0, believedMs: () => 600_000, viewOf: () => undefined },
    ...{ blockTokensOf: () => 0, keptConversationsOf: () => 0 },
  });
  let nowMs = 0;
  const explain = (session: number, messages: number) => {
    // Every fifth turn has another third message than the turn before, and every third one goes to another endpoint.
    const edited = Math.floor(messages / 5);
    const boundaries = Array.from({ length: messages }, (_, at) => ({
      ...{ hash: `${session} ${at < 2 ? 0 : edited} ${at}`, bytes: 4_000 * (at + 1), marked: false },
    }));
    const shape = { boundaries, lastTurn: messages - 3 };
    const address = members[Math.floor(messages / 3) % members.length]?.endpoint.address ?? "";
    nowMs += 1_000;
    // Whoever picks the endpoint has looked all digests up.
    for (const { hash } of boundaries) [...prefixes.holders(hash)];
    const startedAt = performance.now();
    const sent = ledger.sent({ shape, affinityKey: `session ${session}`, cacheKey: "" }, address, nowMs);
    const inputTokens = 1_000 * messages;
    sent.measured(inputTokens, 2_000);
    sent.prefilled(inputTokens, nowMs);
    sent.answered({ inputTokens, outputTokens: 400, reasoningTokens: 0 }, nowMs);
    return 1_000 * (performance.now() - startedAt);
  };
  for (let other = 0; other < remembered; other += 1) explain(-1 - other, REMEMBERED_MESSAGES);
  let least = Number.POSITIVE_INFINITY;
  for (let session = 0; session < repetitions; session += 1) {
    const turns = Array.from({ length: REQUESTS }, (_, turn) => explain(session, CONVERSATION + turn));
    least = Math.min(least, middle(turns));
  }
  return least;
}

/** Resolves to a place for a request of one of many tenants. */
async function place(admission: ClusterAdmission, tenant: number): Promise<Admitted<ClusterMember>> {
  const name = `tenant ${tenant}`;
  const request = { route: ROUTE, tenant: name, hints: { ...HINTS, keyId: name }, tried: new Set<string>() };
  const placed = await admission.acquire(
    { ...request, timeoutMs: 600_000, mayHold: false, underWay: false, bytes: 0 },
    NEVER,
  );
  if (typeof placed === "string") throw new Error(`no place: ${placed}`);
  return placed;
}

const ROUTE = routeFor(generateRequest({}, "Which of these functions is called first?"));

/** Returns the mean time of many runs one after the other, in microseconds. */
async function stretch(run: () => Promise<void>): Promise<number> {
  const startedAt = cpuMs();
  for (let request = 0; request < REQUESTS; request += 1) await run();
  return (1_000 * (cpuMs() - startedAt)) / REQUESTS;
}

async function startFleet(port: number, count: number): Promise<Fleet> {
  let names = addressesOf(count);
  const clock = new VirtualClock();
  const healthChecks = { intervalMs: CHECK_MS };
  const clusters = [
    { model: MODEL, type: "strict_dns", address: `fleet:${port}`, dnsRefreshRateMs: LOOK_UP_MS, healthChecks },
  ];
  const config = checkConfig(gatewayConfigSchema, { keys: { file: "keys.json" }, clusters }, "bench");
  const resolve = async () => names;
  const made: ClusterManager[] = [];
  const startMs = await longestTurnMs(async () => {
    made.push(new ClusterManager(config.clusters, clock, pino({ level: "silent" }), { resolve }));
    await until(() => made[0]?.clusters[0]?.members.length === count);
  });
  const [manager] = made;
  const [cluster] = manager?.clusters ?? [];
  if (!manager || !cluster) throw new Error("the fleet has a cluster");
  const healthy = async (wanted: number) => {
    await until(() => {
      // Whoever could not be asked in time is asked again.
      void clock.advance(10);
      return cluster.healthyEndpoints.length === wanted;
    });
    await turns();
  };
  await healthy(count);
  const resize = async (wanted: number) => {
    names = addressesOf(wanted);
    await clock.advance(LOOK_UP_MS);
    await healthy(wanted);
  };
  return { cluster, manager, clock, startMs, resize };
}

/** Returns loopback addresses, all of which lead to this machine. */
function addressesOf(count: number): readonly string[] {
  return Array.from({ length: count }, (_, at) => `127.1.${at >> 8}.${at & 255}`);
}

/** Returns the most processor time that one turn of the event loop took while something ran, in milliseconds. */
async function longestTurnMs(run: () => Promise<void>): Promise<number> {
  let longest = 0;
  let lastAt = cpuMs();
  let isOver = false;
  const look = () => {
    const now = cpuMs();
    longest = Math.max(longest, now - lastAt);
    lastAt = now;
    if (!isOver) setImmediate(look);
  };
  setImmediate(look);
  await run();
  await turns();
  isOver = true;
  return longest;
}

/** Resolves after some turns of the event loop. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** Returns the processor time that this process has taken so far, in milliseconds: others may be busy, too. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

async function until(condition: () => boolean): Promise<void> {
  const giveUpAt = performance.now() + HEALTHY_WITHIN_MS;
  while (!condition()) {
    if (performance.now() > giveUpAt) throw new Error("the fleet does not come to rest");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
