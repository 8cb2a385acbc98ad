import { expect, test } from "vitest";
import { dynamo, gate, llmdAgents, smg } from "../../../../bench/replay/peer-rules.ts";
import { PieceCaches, PieceStore } from "../../../../bench/replay/piece-cache.ts";
import type { RankedNode } from "../../../../bench/replay/ranked-node.ts";
import type { Fleet, Follower, Router } from "../../../../bench/replay/router.ts";
import { replayedPrompt } from "./replayed-prompt.ts";

/** Three nodes; the first one has the prompt `held` of 100,000 tokens in its cache. */
function fleetOf(rule: (fleet: Fleet) => Router) {
  const store = new PieceStore();
  const caches = new PieceCaches(store, 3, { tokens: 1_000_000 }, () => 0);
  const held = store.add(-1, 100_000);
  caches.begin(0, replayedPrompt(held, 100_000)).prefilled();
  const announced = { held: () => ({ caches, lower: undefined }), isAnnounced: () => true };
  const router = rule({
    nodes: Array.from({ length: 3 }, () => ({}) as RankedNode),
    ranks: 1,
    prefillNodes: 0,
    caches,
    announced,
  });
  const sent: { readonly node: number; readonly follower: Follower | undefined }[] = [];
  const send = (last: number, tokens: number) => {
    router.send(replayedPrompt(last, tokens), (node, follower) => sent.push({ node, follower }));
  };
  return {
    sent,
    nodes: () => sent.map(({ node }) => node),
    sendHeld: (times = 1) => {
      for (let count = 0; count < times; count += 1) send(held, 100_000);
    },
    sendNew: (tokens: number) => send(store.add(-1, tokens), tokens),
  };
}

test("SMG goes where most is cached until requests differ by more than 64", () => {
  const fleet = fleetOf(smg);
  fleet.sendHeld(66);
  expect(fleet.nodes().filter((node) => node === 0)).toHaveLength(65);
  expect(fleet.nodes().at(-1)).not.toBe(0);
  for (const { follower } of fleet.sent.splice(0, 65)) follower?.finished(0);
  fleet.sendHeld();
  expect(fleet.nodes().at(-1)).toBe(0);
});

test("llm-d's rule for agents leaves the holder when others are 18 s faster", () => {
  const fleet = fleetOf((parts) => llmdAgents(parts, () => 0.5));
  fleet.sendHeld(100);
  expect(new Set(fleet.nodes())).toEqual(new Set([0]));
  // New prompts go where the fewest uncached tokens are in flight.
  for (let count = 0; count < 6; count += 1) fleet.sendNew(150_000);
  expect(fleet.nodes().slice(100).sort()).toEqual([0, 0, 1, 1, 2, 2]);
  for (const { node, follower } of fleet.sent) if (node !== 0) follower?.firstToken();
  fleet.sendHeld();
  expect(fleet.nodes().at(-1)).not.toBe(0);
});

test("Dynamo weighs running blocks against cached ones, and waits while all workers prefill much", () => {
  const fleet = fleetOf((parts) => dynamo(parts, () => 0.5));
  fleet.sendHeld(2);
  // The blocks of the first one cost as much as the prefill: the next one goes elsewhere.
  fleet.sendHeld();
  expect(fleet.nodes().at(-1)).not.toBe(0);
  for (let count = 0; count < 9; count += 1) fleet.sendNew(140_000);
  const began = fleet.sent.length;
  expect(began).toBeLessThan(3 + 9);
  fleet.sendHeld();
  expect(fleet.sent).toHaveLength(began);
  fleet.sent.at(-1)?.follower?.firstToken();
  expect(fleet.sent.length).toBeGreaterThan(began);
});

test("the yardstick's gate holds long prompts while all nodes have much to prefill, and lets cached ones pass", () => {
  const fleet = fleetOf(gate);
  for (let count = 0; count < 4; count += 1) fleet.sendNew(50_000);
  expect([...fleet.nodes()].sort()).toEqual([0, 1, 2]);
  fleet.sendHeld();
  expect(fleet.nodes().at(-1)).toBe(0);
  fleet.sent[1]?.follower?.firstToken();
  expect(fleet.nodes().at(-1)).toBe(fleet.sent[1]?.node);
});
