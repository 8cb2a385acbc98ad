import { expect, test } from "vitest";
import { ToldPrefixes } from "../../../../../gateway/upstream/prefixes/told-prefixes.ts";
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
const held = (index: number, tokens: number) => ({ digest: digest(index), tokens, tailTokens: 1 });

test("after random reports, drops, resets and removals the holders equal those of a simple model", () => {
  const random = seededRandom(3);
  const whole = (below: number) => Math.floor(random() * below);
  const told = new ToldPrefixes();
  const model = new Map<string, Map<number, number>>();
  const wrong: object[] = [];
  for (let step = 0; step < 2_000; step += 1) {
    const address = `node-${whole(3)}:1`;
    if (random() < 0.05) {
      told.forget(address);
      model.delete(address);
    } else {
      const reset = random() < 0.05;
      const holds = Array.from({ length: whole(4) }, () => [whole(20), whole(1_000)] as const);
      const drops = Array.from({ length: whole(3) }, () => whole(20));
      const before = reset ? new Map<number, number>() : (model.get(address) ?? new Map());
      for (const index of drops) before.delete(index);
      for (const [index, tokens] of holds) before.set(index, tokens);
      model.set(address, before);
      told.take(
        address,
        message({
          reset,
          held: holds.map(([index, tokens]) => held(index, tokens)),
          dropped: Buffer.concat(drops.map(digest)),
          kvTokensUsed: step,
        }),
      );
      if (told.fillOf(address)?.usedTokens !== step) wrong.push({ step, address });
    }
    const index = whole(20);
    const expected = [...model].flatMap(([at, of]) => {
      const tokens = of.get(index);
      return tokens === undefined ? [] : [{ address: at, tokens, tailTokens: 1 }];
    });
    const found = told.holders(key(index)).toSorted((a, b) => a.address.localeCompare(b.address));
    if (JSON.stringify(found) !== JSON.stringify(expected.toSorted((a, b) => a.address.localeCompare(b.address))))
      wrong.push({ step, found, expected });
  }
  expect(wrong).toEqual([]);
  expect(told.size).toBe([...model.values()].reduce((sum, of) => sum + of.size, 0));
});

test("endpoints share bounded room for prefixes, and freed room is reused", () => {
  const told = new ToldPrefixes(3);
  told.take("a:1", message({ reset: true, held: [held(1, 10), held(2, 20), held(3, 30), held(4, 40)] }));
  expect(told.size).toBe(3);
  expect(told.holders(key(4))).toEqual([]);
  told.forget("a:1");
  expect(told.fillOf("a:1")).toBeUndefined();
  told.take("b:1", message({ held: [held(4, 40)] }));
  expect(told.holders(key(4))).toEqual([{ address: "b:1", tokens: 40, tailTokens: 1 }]);
});
