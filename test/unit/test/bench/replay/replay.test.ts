import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { readArrivals } from "../../../../bench/replay/arrival-trace.ts";
import type { EvictionOrder } from "../../../../bench/replay/piece-cache.ts";
import { replay, type Scenario } from "../../../../bench/replay/replay.ts";
import type { ReplayPolicy } from "../../../../bench/replay/routers.ts";
import { readSessions } from "../../../../bench/replay/session-trace.ts";

const TRACE = join(import.meta.dirname, "../../../../bench/replay/trace/claude-code-sessions.jsonl.gz");
const sessions = readSessions(gunzipSync(readFileSync(TRACE)).toString());

/** Replays ten minutes of few sessions on two nodes. */
function run(
  policy: ReplayPolicy,
  gateways = 1,
  reports: Pick<Scenario, "nodesLike" | "eventsStopMs" | "prefillNodes"> = {},
) {
  return replay({
    ...reports,
    ...{ policy, gateways, nodes: 2, cacheTokens: 3_000_000, prefillsAtOnce: 1, seed: 1 },
    ...{ warmUpMs: 300_000, untilMs: 900_000 },
    ...{ sessions, perNode: 8 },
  });
}

test("repeats the same replay for a seed", async () => {
  expect(await run("prefix_affinity", 2)).toEqual(await run("prefix_affinity", 2));
});

test("no policy has more cache hits than the oracle, and least_request has the fewest", async () => {
  const oracle = (await run("oracle")).hitRatio;
  const hits: number[] = [];
  for (const policy of ["llmd", "prefix_affinity_exact"] as const) {
    const { hitRatio } = await run(policy);
    expect(hitRatio).toBeLessThanOrEqual(oracle + 0.005);
    hits.push(hitRatio);
  }
  expect(Math.min(...hits)).toBeGreaterThan((await run("least_request")).hitRatio);
});

test("events that stop leave nodes beside vLLM little worse than without any", async () => {
  const nodes = { nodesLike: "vllm" } as const;
  const whole = await run("prefix_affinity_exact", 2, nodes);
  const stopped = await run("prefix_affinity_exact", 2, { ...nodes, eventsStopMs: 240_000 });
  const none = await run("prefix_affinity", 2, nodes);
  // Gateways agree on owners where nodes announce nothing, which is as good in so small a fleet.
  expect(whole.hitRatio).toBeGreaterThan(none.hitRatio - 0.01);
  // Until a node finds that its events have stopped, they mislead.
  expect(stopped.hitRatio).toBeGreaterThan(none.hitRatio - 0.08);
});

test("nearly all lost prompt tokens get the reason that the caches confirm", async () => {
  for (const gateways of [1, 2])
    expect((await run("prefix_affinity_exact", gateways)).trueReasons).toBeGreaterThan(0.94);
  // Such nodes report the cached tokens of a prompt after its prefill.
  for (const policy of ["prefix_affinity", "prefix_affinity_exact"] as const)
    expect((await run(policy, 1, { nodesLike: "vllm" })).trueReasons).toBeGreaterThan(0.94);
});

test("the peers' rules and the yardstick answer whole sessions, with most hits of the oracle", async () => {
  const oracle = await run("oracle");
  for (const policy of ["smg", "llmd_agents", "dynamo", "gate"] as const) {
    const { hitRatio, answers, meanTokenMs, meanSessionS } = await run(policy);
    expect(hitRatio).toBeGreaterThan(0.9 * oracle.hitRatio);
    expect(answers).toBeGreaterThan(0.9 * oracle.answers);
    expect(meanTokenMs).toBeGreaterThan(7);
    expect(meanSessionS).toBeGreaterThan(oracle.meanSessionS);
  }
});

test("ranks whose node picks among them, and host memory behind caches, keep nearly all hits of the oracle", async () => {
  const few = { sessions, perNode: 8, gateways: 1, nodes: 1, ranks: 2, prefillsAtOnce: 1, seed: 1 };
  const hitsOf = async (policy: ReplayPolicy, hostTokens: number) =>
    (await replay({ ...few, policy, hostTokens, cacheTokens: 400_000, warmUpMs: 300_000, untilMs: 900_000 })).hitRatio;
  const [oracle, ranked] = [await hitsOf("oracle", 0), await hitsOf("prefix_affinity_exact", 0)];
  expect(ranked).toBeGreaterThan(0.95 * oracle);
  const behind = await hitsOf("prefix_affinity_exact", 2_000_000);
  expect(behind).toBeGreaterThan(ranked);
  expect(behind).toBeGreaterThan(0.95 * (await hitsOf("oracle", 2_000_000)));
});

test("conversations in turns lose everything on a node with fewer slots, and nothing on two", async () => {
  const lines = Array.from({ length: 36 }, (_, index) => {
    const [conversation, turn] = [index % 12, Math.floor(index / 12)];
    const hash_ids = Array.from({ length: turn + 1 }, (_, block) => 10 * conversation + block);
    return { timestamp: 10_000 * index, input_length: 512 * (turn + 1), output_length: 10, hash_ids };
  });
  const arrivals = readArrivals(lines.map((line) => JSON.stringify(line)).join("\n"));
  const fleet = { policy: "smg", gateways: 1, slots: 8, cacheTokens: 64_000, prefillsAtOnce: 1, seed: 1 } as const;
  const hitsOf = async (nodes: number) =>
    (await replay({ ...fleet, nodes, warmUpMs: 0, untilMs: 600_000, sessions: [], perNode: 0, arrivals })).hitRatio;
  expect(await hitsOf(1)).toBe(0);
  // All of 12 first turns, and a block of each later one, are new.
  expect(await hitsOf(2)).toBeCloseTo((12 + 24) / (12 + 24 + 36));
});

test("an order of eviction that knows the future keeps more than the least recently used", async () => {
  const few = { sessions, perNode: 8, gateways: 1, nodes: 2, prefillsAtOnce: 1, seed: 1, cacheTokens: 400_000 };
  const hitsOf = async (evict: EvictionOrder) =>
    (await replay({ ...few, policy: "oracle", evict, warmUpMs: 300_000, untilMs: 900_000 })).hitRatio;
  const [lru, belady] = [await hitsOf("lru"), await hitsOf("belady")];
  expect(belady).toBeGreaterThan(lru + 0.02);
  expect(await hitsOf("ended_first")).toBeGreaterThan(lru - 0.01);
});

test("requests are replayed at their recorded times, those of one rounded time apart", async () => {
  const lines = [
    { timestamp: 0, input_length: 1_100, output_length: 10, hash_ids: [0, 1, 2] },
    { timestamp: 0, input_length: 2_100, output_length: 10, hash_ids: [0, 1, 3, 4, 5] },
    { timestamp: 20_000, input_length: 1_024, output_length: 10, hash_ids: [0, 6] },
  ];
  const arrivals = readArrivals(lines.map((line) => JSON.stringify(line)).join("\n"));
  expect(arrivals.arrivalsMs).toEqual([0, 10_000, 20_000]);
  const fleet = { policy: "oracle", gateways: 1, nodes: 2, cacheTokens: 3_000_000, prefillsAtOnce: 1 } as const;
  const result = await replay({ ...fleet, seed: 1, warmUpMs: 0, untilMs: 60_000, sessions: [], perNode: 0, arrivals });
  expect(result.answers).toBe(3);
  expect(result.hitRatio).toBeCloseTo((1_024 + 512) / (1_100 + 2_100 + 1_024));
});

test("with a node that only reads, all is answered, and tokens have their times", async () => {
  const alone = await run("prefix_affinity_exact");
  const read = await run("prefix_affinity_exact", 1, { prefillNodes: 1 });
  // One node answers all users of two.
  expect(read.answers).toBeGreaterThan(0.5 * alone.answers);
  expect(read.meanTokenMs).not.toBe(alone.meanTokenMs);
  for (const { p50GapMs, p95GapMs, p99GapMs } of [alone, read]) {
    expect(p50GapMs).toBeLessThanOrEqual(p95GapMs);
    expect(p95GapMs).toBeLessThanOrEqual(p99GapMs);
  }
});
