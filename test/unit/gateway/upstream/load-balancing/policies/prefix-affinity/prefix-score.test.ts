import { describe, expect, test } from "vitest";
import type { PromptShape } from "../../../../../../../gateway/upstream/load-balancing/boundary-hashes.ts";
import { EndpointList } from "../../../../../../../gateway/upstream/load-balancing/endpoint-set.ts";
import type { EndpointView } from "../../../../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { PrefixLearning } from "../../../../../../../gateway/upstream/load-balancing/policies/prefix-affinity/prefix-learning.ts";
import {
  type PrefixContext,
  pickPrefixAffinity,
} from "../../../../../../../gateway/upstream/load-balancing/policies/prefix-affinity/prefix-score.ts";
import { ownerOf } from "../../../../../../../gateway/upstream/load-balancing/policies/prefix-affinity/rendezvous.ts";
import {
  type AnnouncedPrefixes,
  Announcements,
  PrefixIndex,
} from "../../../../../../../gateway/upstream/load-balancing/prefix-index.ts";
import { endpoints, tally } from "../../../../../../support/gateway/upstream/endpoint-with.ts";
import { seededRandom } from "../../../../../../support/seeded-random.ts";

/** Endpoints that several gateways share, unless a test says otherwise. */
const POOL = endpoints(8).map((endpoint) => ({ ...endpoint, gateways: 2 }));
/** The same endpoints behind one gateway. */
const ALONE = endpoints(8);
const USE = { tokensPerByte: 0.25, ttlMs: 60_000, nowMs: 0 };
const NOTHING = new Announcements();

/** A conversation after some turns: a shared head of 80,000 bytes, then 16,000 for each turn's message and answer. */
function turn(session: string, turns: number): PromptShape {
  const boundaries = [
    { hash: "head", bytes: 80_000, marked: false },
    ...Array.from({ length: 2 * turns + 1 }, (_, index) => ({
      hash: `${session}${index}`,
      bytes: 80_000 + (index + 1) * 8_000,
      marked: false,
    })),
  ];
  return { boundaries, lastTurn: turns === 0 ? undefined : boundaries.length - 3 };
}

/**
 * Endpoints that report all their prefixes, as a list of shapes for each address; their caches are `full` or hold
 * nothing else.
 */
function announced(held: Readonly<Record<string, PromptShape>>, full = false): AnnouncedPrefixes {
  return {
    holders: (digest) =>
      Object.entries(held).flatMap(([address, { boundaries }]) => {
        const found = boundaries.find(({ hash }) => hash === digest);
        return found ? [{ address, tokens: found.bytes / 4, tailTokens: 0 }] : [];
      }),
    fillOf: () => ({ usedTokens: full ? 3_000_000 : 0, totalTokens: 3_000_000 }),
  };
}

type Given = Partial<Omit<PrefixContext, "index">> & { readonly prefixes?: AnnouncedPrefixes };

function context({ prefixes = NOTHING, ...given }: Given = {}): PrefixContext {
  return {
    index: new PrefixIndex(prefixes, undefined, 1_000),
    learned: new PrefixLearning(),
    nowMs: 0,
    random: seededRandom(1),
    ...given,
  };
}

/** Records that an endpoint has prefilled a prompt, or that it is on its way there. */
function place(
  { index }: PrefixContext,
  shape: Pick<PromptShape, "boundaries">,
  address: string,
  use: Partial<typeof USE> = {},
) {
  const sent = index.sent({ lastTurn: undefined, ...shape }, address, { ...USE, ...use });
  sent.state = "prefilled";
  return sent;
}

const pick = (shape: PromptShape, given: PrefixContext, pool: readonly EndpointView[] = POOL, affinityKey = "me") =>
  pickPrefixAffinity(new EndpointList(pool), { shape, affinityKey }, given);

function ownersOf(shape: PromptShape, affinityKey = "me"): (string | undefined)[] {
  const key = `${affinityKey} ${shape.boundaries[1]?.hash}`;
  const first = ownerOf(key, POOL);
  const second = ownerOf(
    key,
    POOL.filter((endpoint) => endpoint !== first),
  );
  return [first?.address, second?.address];
}

function changed(address: string | undefined, change: Partial<EndpointView>): EndpointView[] {
  return POOL.map((endpoint) => (endpoint.address === address ? { ...endpoint, ...change } : endpoint));
}

test("an empty list has no pick", () => {
  expect(pick(turn("s", 0), context(), [])).toBeUndefined();
});

describe("a known conversation", () => {
  test("a known conversation goes to the endpoint of its last turn, and is expected to prefill its new part only", () => {
    const given = context();
    place(given, turn("s", 2), "e3");
    const picked = pick(turn("s", 3), given);
    expect(picked?.endpoint.address).toBe("e3");
    expect(picked?.prediction).toMatchObject({ tokens: 34_000, uncachedTokens: 4_000 });
  });

  test("a known conversation stays there through a short queue, and leaves it for a long one", () => {
    const given = context();
    place(given, turn("s", 2), "e3");
    const queued = (outstandingPrefillTokens: number) =>
      pick(turn("s", 3), given, changed("e3", { outstandingPrefillTokens }))?.endpoint.address;
    expect(queued(20_000)).toBe("e3");
    expect(queued(200_000)).not.toBe("e3");
  });

  test("a known conversation prefers the endpoint that holds more of it", () => {
    const given = context();
    place(given, turn("s", 1), "e1");
    place(given, turn("s", 4), "e5");
    place(given, turn("t", 4), "e6");
    expect(pick(turn("s", 5), given)?.endpoint.address).toBe("e5");
  });

  test("a known conversation ignores an expired prefix", () => {
    const given = context({ nowMs: 60_000 });
    place(given, turn("s", 2), "e3");
    expect(pick(turn("s", 3), given)?.prediction.part).toBeUndefined();
  });
});

describe("an unknown conversation", () => {
  const begun = turn("s", 0);
  const [first, second] = ownersOf(begun);

  test("an unknown conversation begins with its owner, unless that is busy for longer than its prefill", () => {
    expect(pick(begun, context())?.endpoint.address).toBe(first);
    const busy = changed(first, { outstandingPrefillTokens: 100_000 });
    expect(pick(begun, context(), busy)?.endpoint.address).not.toBe(first);
  });

  test("an unknown conversation has another owner once its owner has left", () => {
    const left = POOL.filter(({ address }) => address !== first);
    expect(pick(begun, context(), left)?.endpoint.address).toBe(second);
  });

  test("an unknown conversation continues with its owner, where another gateway probably began it", () => {
    const picked = pick(turn("s", 5), context());
    expect(picked?.endpoint.address).toBe(first);
    // 42,000 tokens, of which the 38,000 of the earlier turns are expected in the cache.
    expect(picked?.prediction).toMatchObject({ tokens: 42_000, uncachedTokens: 4_000 });
  });

  test("an unknown conversation returns to its owner if another gateway served it since", () => {
    const given = context();
    place(given, turn("s", 1), "e6");
    expect(first).not.toBe("e6");
    expect(pick(turn("s", 2), given)?.endpoint.address).toBe("e6");
    expect(pick(turn("s", 9), given)?.endpoint.address).toBe(first);
  });

  test("an unknown conversation is not attracted by the holder of a head that all share", () => {
    const given = context();
    place(given, { boundaries: [{ hash: "head", bytes: 80_000, marked: false }] }, "e3");
    const picks = Array.from({ length: 200 }, (_, index) => pick(turn(`s${index}:`, 0), given)?.endpoint.address);
    expect(Math.max(...Object.values(tally(picks)))).toBeLessThan(60);
  });

  test("an unknown conversation finds the same owner at any gateway, whatever the random draw", () => {
    for (const seed of [1, 2, 3, 4, 5]) {
      expect(pick(turn("s", 2), context({ random: seededRandom(seed) }))?.endpoint.address).toBe(first);
    }
  });
});

describe("the prefixes that endpoints report", () => {
  test("the prefixes that endpoints report count more than sent prompts", () => {
    const given = context({ prefixes: announced({ e5: turn("s", 2) }) });
    place(given, turn("s", 2), "e3");
    const picked = pick(turn("s", 3), given);
    expect(picked?.endpoint.address).toBe("e5");
    expect(picked?.prediction).toMatchObject({ tokens: 34_000, uncachedTokens: 4_000, part: { usedAtMs: undefined } });
  });

  test("the prefixes that endpoints report keep prompts valid that are still on their way", () => {
    const given = context({ prefixes: announced({}) });
    place(given, turn("s", 2), "e3").state = "sent";
    expect(pick(turn("s", 3), given)?.endpoint.address).toBe("e3");
  });

  test("the prefixes that endpoints report leave nothing to the owners", () => {
    const [first] = ownersOf(turn("s", 5));
    const holder = first === "e3" ? "e4" : "e3";
    // Another gateway sent the last turns elsewhere, and they are evicted.
    const given = context({ prefixes: announced({ [holder]: turn("s", 1) }) });
    expect(pick(turn("s", 5), given)?.endpoint.address).toBe(holder);
  });

  test("the prefixes that endpoints report include an expected end of the answer for the holder of the prompt", () => {
    const shape = turn("s", 1);
    const prefixes: AnnouncedPrefixes = {
      ...announced({}),
      holders: (digest) => (digest === "s0" ? [{ address: "e6", tokens: 22_000, tailTokens: 9_000 }] : []),
    };
    const picked = pick(shape, context({ prefixes }));
    expect(picked?.endpoint.address).toBe("e6");
    expect(picked?.prediction).toMatchObject({ tokens: 26_000, uncachedTokens: 2_000 });
  });

  test("the prefixes that endpoints report count tokens to load between cached and uncached ones", () => {
    const shape = turn("s", 1);
    const [hit, lower] = ["e5", "e6"];
    const uncachedOn = (address: string, lowerTokens: number) => {
      const prefixes: AnnouncedPrefixes = {
        ...announced({}),
        holders: (digest) => (digest === "s0" ? [{ address, tokens: 22_000, tailTokens: 0, lowerTokens }] : []),
      };
      const picked = pick(shape, context({ prefixes }));
      expect(picked?.endpoint.address).toBe(address);
      return picked?.prediction.uncachedTokens ?? 0;
    };
    expect(uncachedOn(lower, 20_000) - uncachedOn(hit, 0)).toBe(2_000);
    const both: AnnouncedPrefixes = {
      ...announced({}),
      holders: (digest) =>
        digest === "s0"
          ? [
              { address: lower, tokens: 22_000, tailTokens: 0, lowerTokens: 20_000 },
              { address: hit, tokens: 22_000, tailTokens: 0 },
            ]
          : [],
    };
    expect(pick(shape, context({ prefixes: both }))?.endpoint.address).toBe(hit);
  });

  test("the prefixes that endpoints report are looked up as often as a conversation has new blocks, however long it is", () => {
    const asked = (turns: number) => {
      let count = 0;
      const prefixes = announced({ e5: turn("s", turns - 1) });
      const holders = (digest: string) => {
        count += 1;
        return prefixes.holders(digest);
      };
      pick(turn("s", turns), context({ prefixes: { ...prefixes, holders } }));
      return count;
    };
    expect(asked(400)).toBe(asked(10));
  });
});

describe("a prompt that is long", () => {
  const stays = (prefixes: AnnouncedPrefixes, change: Partial<EndpointView> = {}) =>
    pick(turn("s", 3), context({ prefixes }), changed("e3", { outstandingPrefillTokens: 150_000, ...change }))?.endpoint
      .address === "e3";

  test("a long prompt waits longer where it is cached the more it would evict elsewhere", () => {
    expect(stays(announced({ e3: turn("s", 2) }))).toBe(false);
    expect(stays(announced({ e3: turn("s", 2) }, true))).toBe(true);
  });

  test("a prompt that is long evicts without penalty where caches keep unused entries for hours", () => {
    const idle = POOL.map((endpoint) => ({ ...endpoint, retentionMs: 7_200_000 }));
    const busy = idle.map((one) => (one.address === "e3" ? { ...one, outstandingPrefillTokens: 150_000 } : one));
    const given = context({ prefixes: announced({ e3: turn("s", 2) }, true) });
    expect(pick(turn("s", 3), given, busy)?.endpoint.address).not.toBe("e3");
  });
});

describe("a single gateway", () => {
  test("a single gateway finds the endpoint of a conversation whose history was changed", () => {
    const given = context();
    place(given, turn("s", 1), "e3");
    expect(pick(turn("s", 9), given, ALONE)?.endpoint.address).toBe("e3");
  });

  test("a single gateway begins conversations where the fewest recent ones are, and goes on with them where they are", () => {
    const learned = new PrefixLearning();
    for (const { address } of ALONE) if (address !== "e2") learned.picked(`on ${address}`, address, 0);
    const given = context({ learned });
    expect(pick(turn("s", 0), given, ALONE)?.endpoint.address).toBe("e2");
    place(given, turn("s", 0), "e5");
    expect(pick(turn("s", 1), given, ALONE)?.endpoint.address).toBe("e5");
  });
});

test("gateways that share nothing do not all begin on the same one of equal endpoints", () => {
  const picks = Array.from({ length: 100 }, (_, seed) => {
    const given = context({ random: seededRandom(seed), prefixes: announced({}) });
    return pick(turn("s", 0), given)?.endpoint.address;
  });
  expect(Object.keys(tally(picks)).length).toBe(8);
});

describe("a new conversation among full caches", () => {
  const full = announced({}, true);

  test("a new conversation among full caches begins where unused prefixes are kept for longest", () => {
    const pool = POOL.map((one) => ({ ...one, retentionMs: one.address === "e2" ? 600_000 : 250_000 }));
    expect(pick(turn("s", 0), context({ prefixes: full }), pool)?.endpoint.address).toBe("e2");
  });

  test("a new conversation among full caches begins where there is room, though another endpoint holds its head", () => {
    const head = { boundaries: turn("s", 0).boundaries.slice(0, 1), lastTurn: undefined };
    const held = announced({ e3: head });
    const fills = (address: string) => ({ usedTokens: address === "e5" ? 0 : 3_000_000, totalTokens: 3_000_000 });
    expect(pick(turn("s", 0), context({ prefixes: held }))?.endpoint.address).toBe("e3");
    const scarce = context({ prefixes: { ...held, fillOf: fills } });
    expect(pick(turn("s", 0), scarce)?.endpoint.address).toBe("e5");
  });
});

test("a belief lasts until the endpoint has evicted entries used at that time", () => {
  const picked = (evictedBeforeMs: number) => {
    const given = context({ nowMs: 1_000_000 });
    place(given, turn("s", 2), "e3", { ttlMs: 3_600_000 });
    return pick(turn("s", 3), given, changed("e3", { evictedBeforeMs, gateways: 1 }))?.prediction.part;
  };
  expect(picked(USE.nowMs)).toBeDefined();
  expect(picked(USE.nowMs + 1)).toBeUndefined();
});

test("an endpoint that writes slowly gets little, however short its queue is", () => {
  const fast = POOL.map((endpoint) => ({ ...endpoint, decodeTokensPerSecond: 50, activeRequests: 8 }));
  const pool = fast.map((one) =>
    one.address === "e2" ? { ...one, decodeTokensPerSecond: 1, activeRequests: 0 } : one,
  );
  const picks = Array.from(
    { length: 50 },
    (_, index) => pick(turn(`s${index}:`, 0), context(), pool)?.endpoint.address,
  );
  expect(tally(picks).e2 ?? 0).toBe(0);
});

test("callers that share a key are spread by their conversations, and the same conversation by callers", () => {
  const given = context();
  const byHead = Array.from({ length: 100 }, (_, index) => pick(turn(`s${index}:`, 0), given)?.endpoint.address);
  const byKey = Array.from(
    { length: 100 },
    (_, index) => pick(turn("s", 0), given, POOL, `k${index}`)?.endpoint.address,
  );
  expect(new Set(byHead).size).toBe(8);
  expect(new Set(byKey).size).toBe(8);
});

test("an endpoint in slow start gets less", () => {
  const given = context({ nowMs: 3_000 });
  for (const address of ["e1", "e2"]) place(given, turn("s", 2), address);
  expect(pick(turn("s", 3), given, changed("e2", { healthySinceMs: 0 }))?.endpoint.address).toBe("e1");
  expect(pick(turn("s", 3), given, changed("e1", { healthySinceMs: 0 }))?.endpoint.address).toBe("e2");
});

test("a small pool is scored whole", () => {
  const small = POOL.slice(0, 4).map((endpoint) => ({ ...endpoint, outstandingPrefillTokens: 500_000 }));
  const idle = small.map((endpoint, index) => (index === 2 ? { ...endpoint, outstandingPrefillTokens: 0 } : endpoint));
  for (let session = 0; session < 20; session += 1) {
    expect(pick(turn(`s${session}:`, 0), context(), idle)?.endpoint.address).toBe("e2");
  }
});

test("the pick is always from the list, whatever the beliefs", () => {
  const random = seededRandom(9);
  const given = context({ random });
  for (let round = 0; round < 1_000; round += 1) {
    const shape = turn(`s${Math.floor(random() * 30)}:`, Math.floor(random() * 6));
    const pool = POOL.filter(() => random() < 0.6);
    const picked = pick(shape, given, pool);
    expect(picked === undefined).toBe(pool.length === 0);
    if (!picked) continue;
    expect(pool).toContain(picked.endpoint);
    expect(picked.prediction.uncachedTokens).toBeGreaterThanOrEqual(0);
    expect(picked.prediction.uncachedTokens).toBeLessThanOrEqual(picked.prediction.tokens + 1e-6);
    place(given, shape, picked.endpoint.address);
  }
});
