import { describe, expect, test } from "vitest";
import type { PromptShape } from "../../../../../gateway/upstream/load-balancing/boundary-hashes.ts";
import { CacheReasons } from "../../../../../gateway/upstream/load-balancing/cache-reasons.ts";
import type { EndpointView } from "../../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import {
  type AnnouncedPrefix,
  type AnnouncedPrefixes,
  PrefixIndex,
} from "../../../../../gateway/upstream/load-balancing/prefix-index.ts";

const BYTES = 4_000;
const TOKENS = 1_000;
const MINUTE = 60_000;

/**
 * The prompt of a conversation by the words of its messages, of 1,000 tokens each, the head first; "+" is for twice as
 * many. What stands before a slash in the head are its tools.
 */
function prompt(words: string): PromptShape {
  const messages = words.split(" ");
  let bytes = 0;
  const boundaries = messages.map((word, index) => {
    bytes += word.endsWith("+") ? 2 * BYTES : BYTES;
    const tools = index === 0 ? { tools: word.split("/")[0] ?? "" } : {};
    return { hash: messages.slice(0, index + 1).join(" "), bytes, marked: false, ...tools };
  });
  const last = messages.findLastIndex((word) => word.startsWith("a"));
  return { boundaries, lastTurn: last < 0 ? undefined : last - 1 };
}

type View = Pick<EndpointView, "gateways" | "evictedBeforeMs">;

class Gateway {
  nowMs = 0;
  readonly lives: Record<string, number | undefined> = { A: 1, B: 1 };
  readonly index: PrefixIndex;
  readonly reasons: CacheReasons;

  constructor({ announced, viewOf }: { announced?: AnnouncedPrefixes; viewOf?: (address: string) => View } = {}) {
    const get = (address: string) => {
      const startedAtMs = this.lives[address];
      const view = viewOf?.(address) ?? { gateways: 0, evictedBeforeMs: undefined };
      return startedAtMs === undefined ? undefined : { ...view, startedAtMs };
    };
    this.index = new PrefixIndex(announced, { get });
    this.reasons = new CacheReasons(this.index);
  }

  /** Sends a prompt, for which the engine then reports so many messages as cached. */
  ask(words: string, address: string, cachedMessages: number, affinityKey = "session") {
    this.nowMs += 1_000;
    const { nowMs } = this;
    const shape = prompt(words);
    const { tokens = 0, tailTokens = 0 } = this.index.held(shape, nowMs, TOKENS / BYTES).byAddress.get(address) ?? {};
    const sent = this.index.sent(shape, address, { tokensPerByte: TOKENS / BYTES, ttlMs: 5 * MINUTE, nowMs });
    const asked = { shape, affinityKey, address, expectedTokens: tokens + tailTokens };
    const inputTokens = TOKENS * shape.boundaries.length;
    const note = this.reasons.explain(asked, inputTokens, TOKENS * cachedMessages, nowMs);
    sent.state = "prefilled";
    return note;
  }
}

describe("the single reason for a cache miss is", () => {
  test("none for a first turn, and none for a turn that finds the whole previous turn", () => {
    const gateway = new Gateway();
    expect(gateway.ask("head u1", "A", 0)).toMatchObject({ reason: "new", expectedTokens: 0, lostTokens: 0 });
    expect(gateway.ask("head u1 a1 u2", "A", 2)).toMatchObject({ reason: "hit", expectedTokens: 2_000, lostTokens: 0 });
    expect(gateway.ask("head other", "A", 1, "other")).toMatchObject({ reason: "hit", expectedTokens: 1_000 });
  });

  test("none for a prefix that several endpoints have, each of which is expected to", () => {
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

  test("none for a conversation that returns to an endpoint, which is expected to have its earlier state", () => {
    const gateway = new Gateway();
    gateway.ask("head u1 a1 u2", "A", 0);
    gateway.ask("head u1 a1 u2 a2 u3", "B", 0);
    expect(gateway.ask("head u1 a1 u2 a2 u3 a3 u4", "A", 4)).toMatchObject({ expectedTokens: 4_000, reason: "moved" });
    expect(gateway.ask("head u1 a1 u2 a2 u3 a3 u4 a4 u5", "B", 6)).toMatchObject({ expectedTokens: 6_000 });
  });

  test("eviction, if the prompt went to its former endpoint", () => {
    const gateway = new Gateway();
    gateway.ask("head u1 a1 u2", "A", 0);
    expect(gateway.ask("head u1 a1 u2 a2 u3", "A", 1)).toMatchObject({
      ...{ reason: "evicted", expectedTokens: 4_000, cachedTokens: 1_000, lostTokens: 3_000 },
    });
  });

  test("eviction, if another endpoint had it and reports a shorter retention", () => {
    const viewOf = () => ({ gateways: 1, evictedBeforeMs: gateway.nowMs - MINUTE });
    const gateway: Gateway = new Gateway({ viewOf });
    gateway.ask("head u1", "A", 0);
    expect(gateway.ask("head u1 a1 u2", "B", 0)).toMatchObject({ reason: "moved", lostTokens: 2_000 });
    gateway.nowMs += 2 * MINUTE;
    expect(gateway.ask("head u1 a1 u2 a2 u3", "A", 0)).toMatchObject({ reason: "evicted", lostTokens: 4_000 });
    gateway.nowMs += 2 * MINUTE;
    expect(gateway.ask("head u1 a1 u2 a2 u3 a3 u4", "A", 6)).toMatchObject({ reason: "hit" });
  });

  test("load, if another endpoint is believed to have it, and age, if it no longer is", () => {
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

  test("the client, which changed a message or sent a summary instead of the history", () => {
    const gateway = new Gateway();
    gateway.ask("head u1 a1 u2 a2 u3", "A", 0);
    expect(gateway.ask("head u1 a1 x2 a2 u3 a3 u4", "A", 3)).toMatchObject({
      ...{ reason: "client_changed", changedMessage: 3, lostTokens: 3_000 },
    });
    expect(gateway.ask("head u1 summary", "A", 2)).toMatchObject({ reason: "compaction", changedMessage: 2 });
  });

  test("the client, even if it begins with a summary, or has other tools", () => {
    const gateway = new Gateway();
    gateway.ask("head u1 a1 u2 a2 u3", "A", 0);
    expect(gateway.ask("head summary", "A", 1)).toMatchObject({ reason: "compaction", changedMessage: 1 });
    gateway.ask("head summary a3 u4 a4 u5", "A", 2);
    expect(gateway.ask("tools summary a3 u4 a4 u5 a5 u6", "A", 0)).toMatchObject({
      ...{ reason: "client_changed", changedMessage: 0, lostTokens: 6_000 },
    });
  });

  test.each([
    ["t1/s1 u1 x1 u2 a2 u3 a3 u4", "messages"],
    ["t2/s1 u1 a1 u2 a2 u3 a3 u4", "tools"],
    ["t2/s2 u1 a1 u2 a2 u3 a3 u4", "tools"],
    ["t1/s2 u1 a1 u2 a2 u3 a3 u4", "system"],
    ["t1/s1 u1 a1 u2 a2 u3 a3 u4", undefined],
  ])("the client, with the part in which the change begins: %s has other %s", (words, changedPart) => {
    const gateway = new Gateway();
    gateway.ask("t1/s1 u1 a1 u2 a2 u3", "A", 0);
    expect(gateway.ask(words, "A", 0).changedPart).toBe(changedPart);
  });

  test("the client, even for an old change, behind a prefix that other prompts share", () => {
    const rest = Array.from({ length: 80 }, (_, index) => `a${index} u${index}`).join(" ");
    for (const [changed, changedMessage] of [["u1", 5] as const, ["u9", 21] as const]) {
      const gateway = new Gateway();
      gateway.ask("head u", "A", 0);
      gateway.ask(`head u ${rest}`, "A", 2);
      const next = gateway.ask(`head u ${rest.replace(`${changed} `, "x ")} a u`, "A", 2);
      expect(next).toMatchObject({ reason: "client_changed", changedMessage });
    }
  });

  test("the client, even if it returns to an abandoned branch after a long one, and changes it", () => {
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

  test("the client, if it restarts with other tools and a single gateway has never seen the previous turn", () => {
    const history = Array.from({ length: 20 }, (_, index) => `a${index} u${index}`).join(" ");
    for (const [gateways, reason] of [[1, "compaction"] as const, [2, "other_gateway"] as const]) {
      const gateway = new Gateway({ viewOf: () => ({ gateways, evictedBeforeMs: undefined }) });
      gateway.ask(`head u ${history}`, "A", 0);
      gateway.ask("side question", "A", 0);
      expect(gateway.ask("tools+ summary+ again+ a1+ u1+", "A", 0)).toMatchObject({ reason });
    }
  });

  test("not the client, if it begins another conversation or continues an earlier one", () => {
    const gateway = new Gateway();
    gateway.ask("head u1 a1 u2", "A", 0);
    gateway.ask("head u1 a1 u2 a2 u3", "A", 4);
    gateway.ask("head u1 x1 u2", "A", 2);
    expect(gateway.ask("head u1 a1 u2 a2 u3 a3 u4", "B", 0)).toMatchObject({ reason: "moved", lostTokens: 6_000 });
    expect(gateway.ask("head other question of the user", "A", 1)).toMatchObject({ reason: "hit", lostTokens: 0 });
  });

  test("another gateway, if the last turn was never seen here and its endpoint was not found", () => {
    const gateway = new Gateway();
    expect(gateway.ask("head u1 a1 u2 a2 u3", "A", 0)).toMatchObject({ reason: "other_gateway", lostTokens: 4_000 });
    expect(gateway.ask("head u1 a1 u2 a2 u3 a3 u4 a4 u5", "A", 6)).toMatchObject({
      ...{ reason: "other_gateway", lostTokens: 2_000 },
    });
    expect(gateway.ask("head u1 a1 u2 a2 u3 a3 u4 a4 u5 a5 u6 a6 u7", "A", 12)).toMatchObject({ reason: "hit" });
  });

  test("another gateway, if it served later turns and endpoints do not announce their prefixes", () => {
    const gateway = new Gateway();
    gateway.ask("head u1 a1 u2", "A", 0);
    expect(gateway.ask("head u1 a1 u2 a2 u3 a3 u4", "A", 0)).toMatchObject({
      reason: "other_gateway",
      lostTokens: 6_000,
    });
  });

  test("another gateway, if it may have sent the changed message in a turn unseen here", () => {
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

describe("an endpoint that announces its prefixes", () => {
  const told = (held: Record<string, AnnouncedPrefix>) => ({
    announced: {
      holders: (digest: string) => (held[digest] ? [held[digest]] : []),
      fillOf: () => ({ usedTokens: 1, totalTokens: 2 }),
    },
  });

  test("is expected to have exactly those, their tails included", () => {
    const gateway = new Gateway(told({ "head u1": { address: "A", tokens: 1_990, tailTokens: 210 } }));
    gateway.ask("head u1", "A", 0);
    expect(gateway.ask("head u1 a1 u2", "A", 2.2)).toMatchObject({ reason: "hit", expectedTokens: 2_200 });
  });

  test("has evicted the part behind another's prefix", () => {
    const parts = (tokens: number) => told({ "head u1": { address: "B", tokens: 2_000, tailTokens: tokens } });
    for (const [tailTokens, reason] of [[3_500, "moved"] as const, [500, "evicted"] as const]) {
      const gateway = new Gateway(parts(tailTokens));
      gateway.ask("head u1 a1 u2 a2 u3", "B", 0);
      expect(gateway.ask("head u1 a1 u2 a2 u3 a3 u4", "A", 0).reason).toBe(reason);
    }
  });

  test("was not moved away from if it had lost the prefix on its own", () => {
    const gateway = new Gateway(told({}));
    gateway.ask("head u1", "A", 0);
    expect(gateway.ask("head u1 a1 u2", "B", 0)).toMatchObject({ reason: "evicted", lostTokens: 2_000 });
  });

  test("was not chosen for a conversation whose prefix another one holds, whichever gateway sent it there", () => {
    const gateway = new Gateway(told({ head: { address: "B", tokens: 1_000, tailTokens: 0 } }));
    expect(gateway.ask("head u1", "A", 0)).toMatchObject({ reason: "moved", lostTokens: 1_000 });
  });

  test("shows the origin of a change: the last prompt remains where no other gateway sent a later turn", () => {
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

test("the last conversations are remembered, however many come", () => {
  const gateway = new Gateway();
  for (let index = 0; index < 6_000; index += 1) gateway.ask(`head${index} u1`, "A", 0, `session ${index}`);
  expect(gateway.ask("head5999 u1 a1 u2", "A", 0, "session 5999").reason).toBe("evicted");
});
