import { describe, expect, test } from "vitest";
import type { PromptShape } from "../../../../../gateway/upstream/load-balancing/boundary-hashes.ts";
import { type HeldPrefix, NOTHING_TOLD } from "../../../../../gateway/upstream/load-balancing/held-prefixes.ts";
import { CacheLedger, type CacheLedgerParts } from "../../../../../gateway/upstream/prefixes/cache-ledger.ts";

const BYTES = 4_000;
const TOKENS = 1_000;
const MINUTE = 60_000;

/**
 * The prompt of a conversation by the words of its messages, of 1,000 tokens each, the head first; "+" is for twice as
 * many.
 */
function prompt(words: string): PromptShape {
  const messages = words.split(" ");
  let bytes = 0;
  const boundaries = messages.map((word, index) => {
    bytes += word.endsWith("+") ? 2 * BYTES : BYTES;
    return { hash: messages.slice(0, index + 1).join(" "), bytes, marked: false };
  });
  const last = messages.findLastIndex((word) => word.startsWith("a"));
  return { boundaries, lastTurn: last < 0 ? undefined : last - 1 };
}

class Gateway {
  nowMs = 0;
  readonly lives: Record<string, number | undefined> = { A: 1, B: 1 };
  readonly ledger: CacheLedger;

  constructor(parts: Partial<CacheLedgerParts> = {}) {
    const lifeOf = (address: string) => this.lives[address];
    const alone = { prefixes: NOTHING_TOLD, lifeOf, believedMs: () => 5 * MINUTE, viewOf: () => undefined };
    this.ledger = new CacheLedger({ ...alone, blockTokensOf: () => 0, keptConversationsOf: () => 0, ...parts });
  }

  /** Sends a prompt, of which the engine then reports `cachedMessages` messages as cached. */
  ask(words: string, address: string, cachedMessages: number, affinityKey = "session") {
    const { sent, inputTokens } = this.begin(words, address, affinityKey);
    const note = sent.measured(inputTokens, TOKENS * cachedMessages);
    sent.prefilled(inputTokens, this.nowMs);
    sent.ended(this.nowMs);
    return note;
  }

  /** Sends a prompt without a report from the engine yet. */
  begin(words: string, address: string, affinityKey = "session", cacheKey = "") {
    this.nowMs += 1_000;
    const shape = prompt(words);
    const sent = this.ledger.sent({ shape, affinityKey, cacheKey }, address, this.nowMs);
    return { sent, inputTokens: TOKENS * shape.boundaries.length };
  }
}

describe("the single reason for a cache miss is", () => {
  test("none for a first turn, and for one that finds the whole previous turn", () => {
    const gateway = new Gateway();
    expect(gateway.ask("head u1", "A", 0)).toMatchObject({ reason: "new", expectedTokens: 0, lostTokens: 0 });
    expect(gateway.ask("head u1 a1 u2", "A", 2)).toMatchObject({ reason: "hit", expectedTokens: 2_000, lostTokens: 0 });
    expect(gateway.ask("head other", "A", 1, "other")).toMatchObject({ reason: "hit", expectedTokens: 1_000 });
  });

  test("none for a beginning that several endpoints hold, each expected to", () => {
    const gateway = new Gateway();
    gateway.ask("head u1", "A", 0, "one");
    gateway.ask("head u2", "B", 0, "two");
    expect(gateway.ask("head u3", "A", 1, "three")).toMatchObject({ reason: "hit", expectedTokens: 1_000 });
    expect(gateway.ask("head u4", "B", 1, "four")).toMatchObject({ reason: "hit", expectedTokens: 1_000 });
    gateway.lives.B = 2;
    gateway.ask("head u5", "A", 1, "five");
    expect(gateway.ask("head u6", "B", 0, "six")).toMatchObject({ expectedTokens: 0 });
    gateway.nowMs += 6 * MINUTE;
    expect(gateway.ask("head u7", "A", 0, "seven")).toMatchObject({ expectedTokens: 0 });
  });

  test("none for a conversation that returns to an endpoint with its earlier prefix", () => {
    const gateway = new Gateway();
    gateway.ask("head u1 a1 u2", "A", 0);
    gateway.ask("head u1 a1 u2 a2 u3", "B", 0);
    expect(gateway.ask("head u1 a1 u2 a2 u3 a3 u4", "A", 4)).toMatchObject({ expectedTokens: 4_000, reason: "moved" });
    expect(gateway.ask("head u1 a1 u2 a2 u3 a3 u4 a4 u5", "B", 6)).toMatchObject({ expectedTokens: 6_000 });
    for (const other of ["C", "D", "E"]) {
      gateway.lives[other] = 1;
      gateway.ask("head u1 a1 u2", other, 0);
    }
    // With so many endpoints the least recently used one is forgotten.
    expect(gateway.ask("head u1 a1 u2 x", "B", 4)).toMatchObject({ expectedTokens: 4_000 });
    expect(gateway.ask("head u1 a1 u2 y", "A", 4)).toMatchObject({ expectedTokens: 0 });
  });

  test("eviction, on the endpoint that held it", () => {
    const gateway = new Gateway();
    gateway.ask("head u1 a1 u2", "A", 0);
    expect(gateway.ask("head u1 a1 u2 a2 u3", "A", 1)).toMatchObject({
      ...{ reason: "evicted", expectedTokens: 4_000, cachedTokens: 1_000, lostTokens: 3_000 },
    });
  });

  test("eviction, on another endpoint whose retention is shorter", () => {
    const viewOf = () => ({ gateways: 1, evictedBeforeMs: gateway.nowMs - MINUTE });
    const gateway: Gateway = new Gateway({ viewOf });
    gateway.ask("head u1", "A", 0);
    expect(gateway.ask("head u1 a1 u2", "B", 0)).toMatchObject({ reason: "moved", lostTokens: 2_000 });
    gateway.nowMs += 2 * MINUTE;
    expect(gateway.ask("head u1 a1 u2 a2 u3", "A", 0)).toMatchObject({ reason: "evicted", lostTokens: 4_000 });
    gateway.nowMs += 2 * MINUTE;
    expect(gateway.ask("head u1 a1 u2 a2 u3 a3 u4", "A", 6)).toMatchObject({ reason: "hit", expectedTokens: 0 });
  });

  test("load, where another endpoint likely holds it; age, where it no longer does", () => {
    const gateway = new Gateway();
    gateway.ask("head u1", "A", 0);
    expect(gateway.ask("head u1 a1 u2", "B", 0)).toMatchObject({ reason: "moved", lostTokens: 2_000 });
    gateway.nowMs += 6 * MINUTE;
    expect(gateway.ask("head u1 a1 u2 a2 u3", "A", 2)).toMatchObject({ reason: "belief_expired", lostTokens: 2_000 });
  });

  test("a restart, and a node that has left", () => {
    const gateway = new Gateway();
    gateway.ask("head u1", "A", 0);
    gateway.lives.A = 2;
    expect(gateway.ask("head u1 a1 u2", "A", 0)).toMatchObject({ reason: "node_restarted", expectedTokens: 0 });
    gateway.lives.A = undefined;
    expect(gateway.ask("head u1 a1 u2 a2 u3", "B", 0)).toMatchObject({ reason: "node_restarted", lostTokens: 4_000 });
  });

  test("the client, after a changed message or a summary of the history", () => {
    const gateway = new Gateway();
    gateway.ask("head u1 a1 u2 a2 u3", "A", 0);
    expect(gateway.ask("head u1 a1 x2 a2 u3 a3 u4", "A", 3)).toMatchObject({
      ...{ reason: "client_changed", changedMessage: 3, lostTokens: 3_000 },
    });
    expect(gateway.ask("head u1 summary", "A", 2)).toMatchObject({ reason: "compaction", changedMessage: 2 });
  });

  test("the client, also with a summary at the beginning, or other tools", () => {
    const gateway = new Gateway();
    gateway.ask("head u1 a1 u2 a2 u3", "A", 0);
    expect(gateway.ask("head summary", "A", 1)).toMatchObject({ reason: "compaction", changedMessage: 1 });
    gateway.ask("head summary a3 u4 a4 u5", "A", 2);
    expect(gateway.ask("tools summary a3 u4 a4 u5 a5 u6", "A", 0)).toMatchObject({
      ...{ reason: "client_changed", changedMessage: 0, lostTokens: 6_000 },
    });
  });

  test("the client, also for an early change behind a beginning shared by other prompts", () => {
    const rest = Array.from({ length: 80 }, (_, index) => `a${index} u${index}`).join(" ");
    for (const [changed, changedMessage] of [["u1", 5] as const, ["u9", 100] as const]) {
      const gateway = new Gateway();
      gateway.ask("head u", "A", 0);
      gateway.ask(`head u ${rest}`, "A", 2);
      const next = gateway.ask(`head u ${rest.replace(`${changed} `, "x ")} a u`, "A", 2);
      expect(next).toMatchObject({ reason: "client_changed", changedMessage });
    }
  });

  test("the client, also where it returns to a long abandoned branch, and changes it", () => {
    const branch = Array.from({ length: 40 }, (_, index) => `x${index}`).join(" ");
    const gateway = new Gateway();
    gateway.ask("head u1 a1 u2 a2 u3 a3 u4", "A", 0);
    gateway.ask(`head u1 ${branch}`, "A", 2);
    gateway.ask(`head u1 ${branch} x y`, "A", 42);
    expect(gateway.ask("head u1 a1 u2 other u3 a4 u5", "A", 4)).toMatchObject({
      ...{ reason: "client_changed", changedMessage: 4, lostTokens: 4_000 },
    });
    expect(gateway.ask(`head u1 ${branch} x y z`, "A", 2)).toMatchObject({ reason: "evicted", lostTokens: 42_000 });
  });

  test("the client, where it restarts with other tools and a single gateway never saw the previous turn", () => {
    const history = Array.from({ length: 20 }, (_, index) => `a${index} u${index}`).join(" ");
    for (const [gateways, reason] of [[1, "compaction"] as const, [2, "other_gateway"] as const]) {
      const gateway = new Gateway({ viewOf: () => ({ gateways, evictedBeforeMs: undefined }) });
      gateway.ask(`head u ${history}`, "A", 0);
      gateway.ask("side question", "A", 0);
      expect(gateway.ask("tools+ summary+ again+ a1+ u1+", "A", 0)).toMatchObject({ reason });
    }
  });

  test("not the client, where it begins another conversation or resumes an earlier one", () => {
    const gateway = new Gateway();
    gateway.ask("head u1 a1 u2", "A", 0);
    gateway.ask("head u1 a1 u2 a2 u3", "A", 4);
    gateway.ask("head u1 x1 u2", "A", 2);
    expect(gateway.ask("head u1 a1 u2 a2 u3 a3 u4", "B", 0)).toMatchObject({ reason: "moved", lostTokens: 6_000 });
    expect(gateway.ask("head other question of the user", "A", 1)).toMatchObject({ reason: "hit", lostTokens: 0 });
  });

  test("another gateway, where this one never saw the last turn and its endpoint was not found", () => {
    const gateway = new Gateway();
    expect(gateway.ask("head u1 a1 u2 a2 u3", "A", 0)).toMatchObject({ reason: "other_gateway", lostTokens: 4_000 });
    expect(gateway.ask("head u1 a1 u2 a2 u3 a3 u4 a4 u5", "A", 6)).toMatchObject({
      ...{ reason: "other_gateway", lostTokens: 2_000 },
    });
    expect(gateway.ask("head u1 a1 u2 a2 u3 a3 u4 a4 u5 a5 u6 a6 u7", "A", 12)).toMatchObject({ reason: "hit" });
  });

  test("another gateway, after later turns through it and without reports from endpoints", () => {
    const gateway = new Gateway();
    gateway.ask("head u1 a1 u2", "A", 0);
    expect(gateway.ask("head u1 a1 u2 a2 u3 a3 u4", "A", 0)).toMatchObject({
      reason: "other_gateway",
      lostTokens: 6_000,
    });
  });

  test("another gateway, which may have sent the changed message in an unseen turn", () => {
    for (const [gateways, reason] of [[2, "other_gateway"] as const, [1, "client_changed"] as const]) {
      const gateway = new Gateway({ viewOf: () => ({ gateways, evictedBeforeMs: undefined }) });
      gateway.ask("head u1 a1 u2", "A", 0);
      expect(gateway.ask("head u1 x1 u2 a2 u3 a3 u4", "A", 2).reason).toBe(reason);
      const other = new Gateway({ viewOf: () => ({ gateways, evictedBeforeMs: undefined }) });
      other.ask("head u1 a1 u2", "A", 0);
      expect(other.ask("head u1 x1 u2 a2 u3", "A", 2).reason).toBe("client_changed");
    }
  });
});

describe("an endpoint that does not report its cache is expected to hold", () => {
  test("a prompt from the end of its prefill on, not during it", () => {
    const gateway = new Gateway();
    const { sent, inputTokens } = gateway.begin("head u1", "A", "one");
    sent.measured(inputTokens, 0);
    expect(gateway.ask("head u2", "A", 0, "two")).toMatchObject({ expectedTokens: 0 });
    const other = new Gateway();
    const begun = other.begin("head u1", "A", "one");
    begun.sent.measured(begun.inputTokens, 0);
    begun.sent.prefilled(begun.inputTokens, other.nowMs);
    expect(other.ask("head u2", "A", 1, "two")).toMatchObject({ expectedTokens: 1_000 });
  });

  test("the answer behind a prompt only for the turn that continues it", () => {
    const gateway = new Gateway();
    const { sent, inputTokens } = gateway.begin("head u1", "A");
    sent.measured(inputTokens, 0);
    sent.prefilled(inputTokens, gateway.nowMs);
    sent.answered({ inputTokens, outputTokens: 900, reasoningTokens: 0 }, gateway.nowMs);
    expect(gateway.begin("head u1", "A").sent.measured(2_000, 1_999)).toMatchObject({ expectedTokens: 2_000 });
    expect(gateway.begin("head u2", "A").sent.measured(2_000, 1_000)).toMatchObject({ expectedTokens: 1_000 });
    expect(gateway.begin("head u1 a1 u2", "A").sent.measured(4_000, 2_900)).toMatchObject({ expectedTokens: 2_900 });
  });

  test("no part of a block", () => {
    const gateway = new Gateway({ blockTokensOf: () => 64 });
    const { sent, inputTokens } = gateway.begin("head u1", "A");
    sent.answered({ inputTokens, outputTokens: 80, reasoningTokens: 0 }, gateway.nowMs);
    expect(gateway.ask("head u2", "A", 1)).toMatchObject({ expectedTokens: 15 * 64 });
    expect(gateway.ask("head u1 a1 u2", "A", 2)).toMatchObject({ expectedTokens: 32 * 64 });
  });

  test("no answer that begins with reasoning, which the next turn leaves out", () => {
    const gateway = new Gateway();
    const { sent, inputTokens } = gateway.begin("head u1", "A");
    sent.answered({ inputTokens, outputTokens: 900, reasoningTokens: 800 }, gateway.nowMs);
    expect(gateway.ask("head u1 a1 u2", "A", 2)).toMatchObject({ expectedTokens: 2_000 });
  });

  test("a prompt for its reported retention after the end of its answer", () => {
    const viewOf = () => ({ gateways: 1, evictedBeforeMs: gateway.nowMs - MINUTE });
    const gateway: Gateway = new Gateway({ viewOf });
    const { sent, inputTokens } = gateway.begin("head u1", "A");
    sent.prefilled(inputTokens, gateway.nowMs);
    gateway.nowMs += 2 * MINUTE;
    sent.answered({ inputTokens, outputTokens: 100, reasoningTokens: 0 }, gateway.nowMs);
    gateway.nowMs += MINUTE / 2;
    expect(gateway.ask("head u1 a1 u2", "A", 2)).toMatchObject({ expectedTokens: 2_100 });
  });

  test("a beginning used by others since, where the rest is evicted", () => {
    const viewOf = () => ({ gateways: 1, evictedBeforeMs: gateway.nowMs - MINUTE });
    const gateway: Gateway = new Gateway({ viewOf });
    gateway.ask("head u1", "A", 0, "one");
    gateway.nowMs += 2 * MINUTE;
    gateway.ask("head u2", "A", 1, "two");
    expect(gateway.ask("head u1 a1 u2", "A", 1, "one")).toMatchObject({ expectedTokens: 1_000 });
  });

  test("the prompt by its last token count, which replaces an earlier one", () => {
    const gateway = new Gateway();
    const { sent } = gateway.begin("head u1", "A");
    sent.prefilled(1_000, gateway.nowMs);
    sent.answered({ inputTokens: 2_000, outputTokens: 100, reasoningTokens: 0 }, gateway.nowMs);
    expect(gateway.ask("head u1 a1 u2", "A", 2)).toMatchObject({ expectedTokens: 2_100 });
  });
});

describe("an endpoint that keeps whole conversations", () => {
  const keeping = (most: number) => new Gateway({ keptConversationsOf: () => most });
  const answered = (gateway: Gateway, words: string, outputTokens: number) => {
    const { sent, inputTokens } = gateway.begin(words, "A");
    sent.prefilled(inputTokens, gateway.nowMs);
    sent.answered({ inputTokens, outputTokens, reasoningTokens: 0 }, gateway.nowMs);
    sent.ended(gateway.nowMs);
  };

  test("evicts the least recently used one for one more", () => {
    const gateway = keeping(2);
    gateway.ask("head1 u1", "A", 0, "one");
    gateway.ask("head2 u1", "A", 0, "two");
    gateway.ask("head1 u1 a1 u2", "A", 2, "one");
    gateway.ask("head3 u1", "A", 0, "three");
    expect(gateway.ask("head1 u1 a1 u2 a2 u3", "A", 4, "one")).toMatchObject({ reason: "hit", expectedTokens: 4_000 });
    expect(gateway.ask("head2 u1 a1 u2", "A", 0, "two")).toMatchObject({ reason: "evicted", expectedTokens: 0 });
  });

  test("neither evicts one whose answer is running nor shares it", () => {
    const gateway = keeping(2);
    const { sent, inputTokens } = gateway.begin("head1 u1", "A");
    sent.prefilled(inputTokens, gateway.nowMs);
    gateway.ask("head2 u1", "A", 0, "two");
    expect(gateway.ask("head1 u1", "A", 0, "retry")).toMatchObject({ expectedTokens: 0 });
    sent.answered({ inputTokens, outputTokens: 100, reasoningTokens: 0 }, gateway.nowMs);
    sent.ended(gateway.nowMs);
    expect(gateway.ask("head1 u1 a1 u2", "A", 2.1)).toMatchObject({ expectedTokens: 2_100 });
    expect(gateway.ask("head2 u1 a1 u2", "A", 0, "two")).toMatchObject({ expectedTokens: 0 });
  });

  test("frees a conversation once, though its request reports its end twice", () => {
    const gateway = keeping(2);
    const first = gateway.begin("head1 u1", "A");
    first.sent.prefilled(first.inputTokens, gateway.nowMs);
    first.sent.ended(gateway.nowMs);
    const second = gateway.begin("head1 u1 a1 u2", "A");
    expect(second.sent.measured(second.inputTokens, 2_000)).toMatchObject({ expectedTokens: 2_000 });
    first.sent.ended(gateway.nowMs);
    expect(gateway.ask("head1 u1 a1 u2", "A", 0, "retry")).toMatchObject({ expectedTokens: 0 });
  });

  test("keeps one whose next turn was abandoned before prefill, and nothing of a new one", () => {
    const gateway = keeping(2);
    gateway.ask("head1 u1", "A", 0, "one");
    for (const words of ["head1 u1 a1 u2", "head2 u1"]) gateway.begin(words, "A").sent.ended(gateway.nowMs);
    expect(gateway.ask("head2 u1", "A", 0, "two")).toMatchObject({ expectedTokens: 0 });
    expect(gateway.ask("head1 u1 a1 u2", "A", 2, "one")).toMatchObject({ expectedTokens: 2_000 });
  });

  test("holds another one than expected, if fewer tokens were cached", () => {
    const gateway = keeping(2);
    gateway.ask("head1 u1", "A", 0, "one");
    expect(gateway.ask("head1 u1 a1 u2", "A", 0, "one")).toMatchObject({ expectedTokens: 2_000, reason: "evicted" });
    gateway.ask("head2 u1", "A", 0, "two");
    expect(gateway.ask("head1 u1 a1 u2 a2 u3", "A", 4, "one")).toMatchObject({ expectedTokens: 4_000 });
    expect(gateway.ask("head2 u1 a1 u2", "A", 2, "two")).toMatchObject({ expectedTokens: 2_000 });
  });

  test("holds none after a restart, and none past its believed lifetime", () => {
    const gateway = keeping(2);
    gateway.ask("head1 u1", "A", 0, "one");
    gateway.lives.A = 2;
    expect(gateway.ask("head1 u1 a1 u2", "A", 0, "one")).toMatchObject({ expectedTokens: 0 });
    gateway.nowMs += 6 * MINUTE;
    expect(gateway.ask("head1 u1 a1 u2 a2 u3", "A", 0, "one")).toMatchObject({ expectedTokens: 0 });
  });

  test("has beginning and end of long conversations stored", () => {
    const gateway = keeping(2);
    const turns = Array.from({ length: 100 }, (_, index) => `a${index} u${index}`).join(" ");
    gateway.ask(`head u ${turns}`, "A", 0, "one");
    expect(gateway.ask(`head u ${turns} a u`, "A", 202, "one")).toMatchObject({ expectedTokens: 202_000 });
    const shorter = turns.split(" ").slice(0, 160).join(" ");
    expect(gateway.ask(`head u ${shorter} x`, "A", 162, "one")).toMatchObject({ expectedTokens: 162_000 });
    expect(gateway.ask("head u x", "A", 2, "one")).toMatchObject({ expectedTokens: 2_000 });
  });

  test("reuses less than half of a prompt only where the prompt continues all of it", () => {
    const gateway = keeping(4);
    answered(gateway, "head u1", 100);
    expect(gateway.ask("head x1+ x2", "A", 0, "other")).toMatchObject({ expectedTokens: 0 });
    expect(gateway.ask("head u1 a1+ u2+ u3+", "A", 2.1)).toMatchObject({ reason: "hit", expectedTokens: 2_100 });
  });

  test("reuses any beginning of the conversation with the caller's cache key", () => {
    const gateway = keeping(4);
    const begun = gateway.begin("head u1", "A", "key", "key");
    begun.sent.prefilled(begun.inputTokens, gateway.nowMs);
    begun.sent.ended(gateway.nowMs);
    const summarised = gateway.begin("head x1+ x2", "A", "key", "key");
    expect(summarised.sent.measured(summarised.inputTokens, 1_000)).toMatchObject({ expectedTokens: 1_000 });
    const other = gateway.begin("head x1+ x2", "A", "other", "other");
    expect(other.sent.measured(other.inputTokens, 0)).toMatchObject({ expectedTokens: 0 });
  });

  test("loses one that another took over, except for their common beginning", () => {
    const gateway = keeping(4);
    answered(gateway, "head u1 u2", 100);
    expect(gateway.ask("head u1 x2", "A", 2, "other")).toMatchObject({ expectedTokens: 2_000 });
    expect(gateway.ask("head u1 u2 a1", "A", 2)).toMatchObject({ reason: "evicted", expectedTokens: 2_000 });
    expect(gateway.ask("head u1 x2 a2 x3 x4", "A", 0, "other")).toMatchObject({ expectedTokens: 0 });
  });

  test("does not reuse such a beginning when it reports its cache either", () => {
    const held: Record<string, HeldPrefix> = {
      head: { address: "A", tokens: 1_000, tailTokens: 0 },
      "head u1": { address: "A", tokens: 2_000, tailTokens: 100 },
    };
    const prefixes = {
      holders: (digest: string) => (held[digest] ? [held[digest]] : []),
      fillOf: () => ({ usedTokens: 1, totalTokens: 2 }),
    };
    const gateway = new Gateway({ prefixes, keptConversationsOf: () => 4 });
    expect(gateway.ask("head x1+", "A", 0, "other")).toMatchObject({ expectedTokens: 0 });
    expect(gateway.ask("head x1", "A", 1, "another")).toMatchObject({ expectedTokens: 1_000 });
    expect(gateway.ask("head u1 a1+ u2+ u3+", "A", 2.1)).toMatchObject({ expectedTokens: 2_100 });
  });
});

describe("an endpoint that reports its cache", () => {
  const told = (held: Record<string, HeldPrefix>) => ({
    prefixes: {
      holders: (digest: string) => (held[digest] ? [held[digest]] : []),
      fillOf: () => ({ usedTokens: 1, totalTokens: 2 }),
    },
  });

  test("is expected to hold exactly that, its tail included", () => {
    const gateway = new Gateway(told({ "head u1": { address: "A", tokens: 1_990, tailTokens: 210 } }));
    gateway.ask("head u1", "A", 0);
    expect(gateway.ask("head u1 a1 u2", "A", 2.2)).toMatchObject({ reason: "hit", expectedTokens: 2_200 });
  });

  test("has evicted the part behind that held by another endpoint", () => {
    const parts = (tokens: number) => told({ "head u1": { address: "B", tokens: 2_000, tailTokens: tokens } });
    for (const [tailTokens, reason] of [[3_500, "moved"] as const, [500, "evicted"] as const]) {
      const gateway = new Gateway(parts(tailTokens));
      gateway.ask("head u1 a1 u2 a2 u3", "B", 0);
      expect(gateway.ask("head u1 a1 u2 a2 u3 a3 u4", "A", 0).reason).toBe(reason);
    }
  });

  test("was not moved away from when it had evicted the prefix", () => {
    const gateway = new Gateway(told({}));
    gateway.ask("head u1", "A", 0);
    expect(gateway.ask("head u1 a1 u2", "B", 0)).toMatchObject({ reason: "evicted", lostTokens: 2_000 });
  });

  test("was not chosen where another one holds the beginning, whichever gateway sent it", () => {
    const gateway = new Gateway(told({ head: { address: "B", tokens: 1_000, tailTokens: 0 } }));
    expect(gateway.ask("head u1", "A", 0)).toMatchObject({ reason: "moved", lostTokens: 1_000 });
  });

  test("shows the author of a change: without later turns elsewhere the last prompt stays", () => {
    const held = (digest: string) => ({ [digest]: { address: "A", tokens: 1_000, tailTokens: 0 } });
    for (const [digest, reason] of [
      ["head u1 a1 u2", "client_changed"] as const,
      ["head u1 x1", "other_gateway"] as const,
      ["nothing", "other_gateway"] as const,
    ]) {
      const gateway = new Gateway({
        ...told(held(digest)),
        viewOf: () => ({ gateways: 2, evictedBeforeMs: undefined }),
      });
      gateway.ask("head u1 a1 u2", "A", 0);
      expect(gateway.ask("head u1 x1 u2 a2 u3 a3 u4", "A", 2).reason).toBe(reason);
    }
  });
});

test("with many conversations, the last ones stay stored", () => {
  const gateway = new Gateway();
  for (let index = 0; index < 6_000; index += 1) gateway.ask(`head${index} u1`, "A", 0, `session ${index}`);
  expect(gateway.ask("head5999 u1 a1 u2", "A", 0, "session 5999").reason).toBe("evicted");
});
