import { describe, expect, test } from "vitest";
import type { PromptShape } from "../../../../../../../gateway/upstream/load-balancing/boundary-hashes.ts";
import { EndpointList } from "../../../../../../../gateway/upstream/load-balancing/endpoint-set.ts";
import { createPolicy } from "../../../../../../../gateway/upstream/load-balancing/policies/policies.ts";
import {
  type AnnouncedPrefixes,
  PrefixIndex,
} from "../../../../../../../gateway/upstream/load-balancing/prefix-index.ts";
import { WorkLedger } from "../../../../../../../gateway/upstream/load-balancing/work-ledger.ts";
import { delta, finished, started } from "../../../../../../support/events/events.ts";
import { endpointWith } from "../../../../../../support/gateway/upstream/endpoint-with.ts";
import { seededRandom } from "../../../../../../support/seeded-random.ts";
import { VirtualClock } from "../../../../../../support/virtual-clock.ts";

const SLOTS = 8;
const WINDOW = 262_144;
const BYTES_PER_TOKEN = 4;
const SPEED = 2_000;

/** A node of slots, each with the prompt of one conversation: an empty one first, then the one unused for longest. */
class SlotNode {
  /** The prompts in the slots, the last used one at the end. */
  #slots: PromptShape[] = [];

  get usedTokens(): number {
    return this.#slots.length * WINDOW;
  }

  holds(digest: string): boolean {
    return this.#slots.some(({ boundaries }) => boundaries.some(({ hash }) => hash === digest));
  }

  /** Takes a prompt, and returns the tokens of it that are cached here: a common head is copied. */
  take(shape: PromptShape): number {
    const cached = shape.boundaries.findLast(({ hash }) => this.holds(hash));
    const before = shape.boundaries[shape.lastTurn ?? -1]?.hash;
    const others = this.#slots.filter(({ boundaries }) => boundaries.at(-1)?.hash !== before);
    this.#slots = [...others.slice(others.length === SLOTS ? 1 : 0), shape];
    return (cached?.bytes ?? 0) / BYTES_PER_TOKEN;
  }
}

type Given = { readonly headTokens: number; readonly ownTokens: number };

/** Returns a turn of a conversation, counted from 0, with a head of its own where none is common. */
function turnOf(name: string, turn: number, { headTokens, ownTokens }: Given): PromptShape {
  const boundaries = Array.from({ length: 2 * turn + 2 }, (_, index) => ({
    hash: index === 0 ? `head ${headTokens > 0 ? "" : name}` : `${name} ${index}`,
    bytes: BYTES_PER_TOKEN * (headTokens + (headTokens > 0 ? 0 : 1) + index * ownTokens),
    marked: false,
  }));
  return { boundaries, lastTurn: turn === 0 ? undefined : 2 * turn - 1 };
}

/** Two idle nodes with slots behind one gateway, which sends one request at a time. */
function fleet(given: Given, affinityKeyOf: (name: string) => string) {
  const clock = new VirtualClock();
  const nodes = new Map(["a", "b"].map((address) => [address, new SlotNode()]));
  const announced: AnnouncedPrefixes = {
    holders: (digest) =>
      [...nodes].flatMap(([address, node]) => {
        if (!node.holds(digest)) return [];
        const index = Number(digest.split(" ").at(-1)) || 0;
        return [{ address, tokens: given.headTokens + index * given.ownTokens, tailTokens: 0 }];
      }),
    fillOf: (address) => ({ usedTokens: nodes.get(address)?.usedTokens ?? 0, totalTokens: SLOTS * WINDOW }),
  };
  const prefixes = new PrefixIndex(announced, { get: (address) => endpointWith({ address }) });
  const parts = { prefixes, work: new WorkLedger(), clock, random: seededRandom(1) };
  const policy = createPolicy("prefix_affinity", parts);
  const pool = [...nodes.keys()].map((address) =>
    endpointWith({ address, slots: SLOTS, prefillTokensPerSecond: SPEED }),
  );
  const candidates = new EndpointList(pool);
  /** Sends a turn; returns where it went and how many tokens of the prompt before it were not cached there. */
  return async (name: string, turn: number) => {
    const shape = turnOf(name, turn, given);
    const affinityKey = affinityKeyOf(name);
    const picked = policy.pick(candidates, { shape, affinityKey, ttlMs: undefined }, clock.nowMs());
    const address = picked?.endpoint.address ?? "";
    picked?.observer?.begin();
    const cachedInputTokens = nodes.get(address)?.take(shape) ?? 0;
    const inputTokens = (shape.boundaries.at(-1)?.bytes ?? 0) / BYTES_PER_TOKEN;
    await clock.advance(1_000);
    const usage = { inputTokens, cachedInputTokens, outputTokens: 20 };
    picked?.observer?.see([started({ inputTokens, cachedInputTokens }), delta(0, "a"), finished(undefined, usage)]);
    picked?.observer?.end();
    const before = turn === 0 ? 0 : (turnOf(name, turn - 1, given).boundaries.at(-1)?.bytes ?? 0) / BYTES_PER_TOKEN;
    return { address, lost: Math.max(0, before - cachedInputTokens) };
  };
}

const count = (addresses: readonly string[], wanted: string) => addresses.filter((one) => one === wanted).length;

describe("two idle nodes of 8 slots", () => {
  test.each<[string, Given, (name: string) => string]>([
    ["without a common head", { headTokens: 0, ownTokens: 190 }, (name) => name],
    ["with a common head of half of the first prompt", { headTokens: 226, ownTokens: 162 }, (name) => name],
    ["with a common head of five times the rest", { headTokens: 4_000, ownTokens: 800 }, (name) => name],
    ["with one session header", { headTokens: 0, ownTokens: 190 }, () => "session"],
    ["with one session header and a common head", { headTokens: 226, ownTokens: 162 }, () => "session"],
  ])(
    "two idle nodes of 8 slots share 12 conversations of 3 turns %s, and lose none",
    async (_, given, affinityKeyOf) => {
      const send = fleet(given, affinityKeyOf);
      const names = Array.from({ length: 12 }, (_, index) => `c${index}`);
      const homes: string[] = [];
      for (const name of names) homes.push((await send(name, 0)).address);
      const [onA, onB] = [count(homes, "a"), count(homes, "b")];
      expect(Math.max(onA, onB)).toBeLessThanOrEqual(7);
      for (const turn of [1, 2])
        for (const [index, name] of names.entries())
          expect(await send(name, turn)).toEqual({ address: homes[index], lost: 0 });
    },
  );

  test("two idle nodes of 8 slots share 8 sessions of 2 turns, one session after the other", async () => {
    const send = fleet({ headTokens: 226, ownTokens: 162 }, (name) => name);
    const homes: string[] = [];
    for (let index = 0; index < 8; index += 1) {
      const { address } = await send(`s${index}`, 0);
      expect(await send(`s${index}`, 1)).toEqual({ address, lost: 0 });
      homes.push(address);
    }
    expect([count(homes, "a"), count(homes, "b")]).toEqual([4, 4]);
  });

  test("two idle nodes of 8 slots hold 16 conversations whose head takes a minute to prefill: a full node counts as full", async () => {
    const given = { headTokens: 120_000, ownTokens: 6_000 };
    const send = fleet(given, (name) => name);
    const names = Array.from({ length: 16 }, (_, index) => `c${index}`);
    const homes: string[] = [];
    for (const name of names) homes.push((await send(name, 0)).address);
    expect([count(homes, "a"), count(homes, "b")]).toEqual([8, 8]);
    for (const [index, name] of names.entries())
      expect(await send(name, 1)).toEqual({ address: homes[index], lost: 0 });
  });
});
