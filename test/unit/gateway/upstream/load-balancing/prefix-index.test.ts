import { describe, expect, test } from "vitest";
import type { PromptShape } from "../../../../../gateway/upstream/load-balancing/boundary-hashes.ts";
import { Announcements, PrefixIndex } from "../../../../../gateway/upstream/load-balancing/prefix-index.ts";
import type { WatchPrefixesResponse } from "../../../../../proto/gen/svc/inference/v1/node_service.ts";
import { seededRandom } from "../../../../support/seeded-random.ts";

const digest = (index: number) => Buffer.from(String(index).padStart(16, "0"), "latin1");
const key = (index: number) => digest(index).toString("base64url");
const message = (fields: Partial<WatchPrefixesResponse>): WatchPrefixesResponse => ({
  reset: false,
  held: [],
  dropped: Buffer.alloc(0),
  kvTokensUsed: 0,
  kvTokensTotal: 0,
  ...fields,
});
const held = (index: number, tokens: number) => ({ digest: digest(index), tokens, tailTokens: 1, lowerTokens: 2 });

describe("announced prefixes", () => {
  test("announced prefixes match a plain model, for any messages, drops, repetitions and lost endpoints", () => {
    const random = seededRandom(3);
    const whole = (below: number) => Math.floor(random() * below);
    const announced = new Announcements();
    const model = new Map<string, Map<number, number>>();
    const wrong: object[] = [];
    for (let step = 0; step < 2_000; step += 1) {
      const address = `node-${whole(3)}:1`;
      if (random() < 0.05) {
        announced.forget(address);
        model.delete(address);
      } else {
        const reset = random() < 0.05;
        const holds = Array.from({ length: whole(4) }, () => [whole(20), whole(1_000)] as const);
        const drops = Array.from({ length: whole(3) }, () => whole(20));
        const before = reset ? new Map<number, number>() : (model.get(address) ?? new Map());
        for (const index of drops) before.delete(index);
        for (const [index, tokens] of holds) before.set(index, tokens);
        model.set(address, before);
        const news = holds.map(([index, tokens]) => held(index, tokens));
        const dropped = Buffer.concat(drops.map(digest));
        announced.take(address, message({ reset, held: news, dropped, kvTokensUsed: step }));
        if (announced.fillOf(address)?.usedTokens !== step) wrong.push({ step, address });
      }
      const index = whole(20);
      const expected = [...model].flatMap(([at, of]) => {
        const tokens = of.get(index);
        return tokens === undefined ? [] : [{ address: at, tokens, tailTokens: 1, lowerTokens: 2 }];
      });
      const sorted = (list: readonly { readonly address: string }[]) =>
        JSON.stringify(list.toSorted((a, b) => a.address.localeCompare(b.address)));
      const found = announced.holders(key(index));
      if (sorted(found) !== sorted(expected)) wrong.push({ step, found, expected });
    }
    expect(wrong).toEqual([]);
    expect(announced.size).toBe([...model.values()].reduce((sum, of) => sum + of.size, 0));
  });

  test("announced prefixes stay within their bound, and freed space is used again", () => {
    const announced = new Announcements(3);
    announced.take("a:1", message({ reset: true, held: [held(1, 10), held(2, 20), held(3, 30), held(4, 40)] }));
    expect(announced.size).toBe(3);
    expect(announced.holders(key(4))).toEqual([]);
    announced.forget("a:1");
    expect(announced.fillOf("a:1")).toBeUndefined();
    announced.take("b:1", message({ held: [held(4, 40)] }));
    expect(announced.holders(key(4))).toEqual([{ address: "b:1", tokens: 40, tailTokens: 1, lowerTokens: 2 }]);
  });
});

/** A prompt of messages of 1,000 tokens each, whose last turn ended `newMessages` before its end. */
function prompt(words: string, newMessages?: number): PromptShape {
  const messages = words.split(" ");
  const boundaries = messages.map((_, index) => ({
    ...{ hash: messages.slice(0, index + 1).join(" "), bytes: 4_000 * (index + 1), marked: false },
  }));
  return { boundaries, lastTurn: newMessages === undefined ? undefined : messages.length - 1 - newMessages };
}

describe("sent prompts", () => {
  const node = (startedAtMs: number) => ({
    startedAtMs,
    gateways: 0,
    evictedBeforeMs: undefined,
    keptConversations: 0,
  });
  const lives: Record<string, ReturnType<typeof node> | undefined> = { A: node(1), B: node(1) };
  const use = (nowMs = 0) => ({ tokensPerByte: 0.25, ttlMs: 60_000, nowMs });
  const indexOf = (announced = new Announcements()) => new PrefixIndex(announced, { get: (address) => lives[address] });
  const tokensOn = (index: PrefixIndex, shape: PromptShape, address = "A", nowMs = 0) =>
    index.held(shape, nowMs, 0.25).byAddress.get(address)?.tokens;

  test("sent prompts that fail leave the earlier ones with the same prefix", () => {
    const index = indexOf();
    index.sent(prompt("h u"), "A", use()).state = "prefilled";
    index.sent(prompt("h u a v"), "A", use()).state = "withdrawn";
    index.sent(prompt("h w"), "B", use());
    expect(tokensOn(index, prompt("h u a v"))).toBe(2_000);
    expect(tokensOn(index, prompt("h u a v"), "B")).toBe(1_000);
  });

  test("sent prompts expire, and go with their endpoint's cache", () => {
    const index = indexOf();
    index.sent(prompt("h u"), "A", use()).state = "prefilled";
    expect(tokensOn(index, prompt("h u"), "A", 59_999)).toBe(2_000);
    expect(tokensOn(index, prompt("h u"), "A", 60_000)).toBeUndefined();
    for (const life of [node(2), undefined]) {
      lives.A = life;
      expect(tokensOn(index, prompt("h u"))).toBeUndefined();
    }
    lives.A = node(1);
    expect(tokensOn(index, prompt("h u"))).toBe(2_000);
  });

  test("sent prompts are evicted with those used after them, until they are used again", () => {
    const index = indexOf();
    for (const [words, nowMs] of [["h1", 10] as const, ["h2", 20] as const, ["h3", 30] as const])
      index.sent(prompt(words), "A", use(nowMs)).state = "prefilled";
    index.evicted("A", 20);
    index.evicted("A", 5);
    expect(["h1", "h2", "h3"].map((words) => tokensOn(index, prompt(words), "A", 40))).toEqual([
      ...[undefined, undefined, 1_000],
    ]);
    index.sent(prompt("h1"), "A", use(40));
    expect(tokensOn(index, prompt("h1"), "A", 40)).toBe(1_000);
  });

  test("sent prompts count beside announcements only until they are prefilled", () => {
    const announced = new Announcements();
    announced.take("A", message({ reset: true }));
    const index = indexOf(announced);
    const sent = index.sent(prompt("h u"), "A", use());
    expect(tokensOn(index, prompt("h u"))).toBe(2_000);
    sent.state = "prefilled";
    expect(tokensOn(index, prompt("h u"))).toBeUndefined();
  });

  test("sent prompts are found by head, tail and marked boundaries, whatever their length", () => {
    const index = indexOf();
    const long = prompt(Array.from({ length: 100 }, (_, at) => `m${at}`).join(" "));
    const marked = { ...long, boundaries: long.boundaries.map((one, at) => ({ ...one, marked: at === 50 })) };
    index.sent(marked, "A", use());
    const cut = (length: number) => ({ ...long, boundaries: long.boundaries.slice(0, length) });
    expect([1, 2, 30, 51, 60, 93, 100].map((length) => tokensOn(index, cut(length)))).toEqual([
      ...[1_000, 2_000, 2_000, 51_000, 51_000, 93_000, 100_000],
    ]);
  });

  test("sent prompts of hundreds of endpoints with one head stay bounded, the newest of each endpoint first", () => {
    const index = new PrefixIndex(new Announcements(), { get: () => undefined }, 50);
    for (let at = 0; at < 300; at += 1) index.sent(prompt(`h u${at}`), `e${at}`, use());
    const { byAddress } = index.held(prompt("h x"), 0, 0.25);
    expect(byAddress.size).toBeLessThanOrEqual(16);
    expect(byAddress.has("e299")).toBe(true);
    expect(tokensOn(index, prompt("h u0"), "e0")).toBeUndefined();
  });

  test("sent prompts are up to date if the endpoint of the last turn is known", () => {
    const index = indexOf();
    index.sent(prompt("h u"), "A", use());
    expect(index.held(prompt("h u a v", 2), 0, 0.25).upToDate).toBe(true);
    expect(index.held(prompt("h u a v b w", 2), 0, 0.25).upToDate).toBe(false);
  });
});
