import { expect, test } from "vitest";
import { HeldPrefixes } from "../../../../engine/prefixes/held-prefixes.ts";
import { type SlotLine, SlotPrefixes } from "../../../../engine/prefixes/slot-prefixes.ts";
import { seededRandom } from "../../../support/seeded-random.ts";

test("after random changes each digest reports the slot with the most tokens after it", () => {
  const random = seededRandom(7);
  const held = new HeldPrefixes(() => ({ used: 0, total: 0 }));
  const slots = [{ id: 0 }, { id: 1 }, { id: 2 }];
  const prefixes = new SlotPrefixes<{ id: number }>(held);
  const model = new Map<{ id: number }, { line: SlotLine; tokens: number }>();
  const linesOf = (head: number): SlotLine => ({
    model: "m",
    places: Array.from({ length: 1 + Math.floor(random() * 6) }, (_, at) => ({
      digest: `${head}/${at}`,
      tokens: 100 * (at + 1),
    })),
  });
  for (let step = 0; step < 300; step += 1) {
    const slot = slots[Math.floor(random() * slots.length)] ?? { id: 0 };
    if (random() < 0.3) {
      prefixes.holdsNothing(slot);
      model.delete(slot);
    } else {
      const line = linesOf(Math.floor(random() * 3));
      const tokens = Math.floor(random() * 800);
      prefixes.holds(slot, line, tokens);
      model.set(slot, { line, tokens });
    }
    const expected = new Map<string, number>();
    for (const { line, tokens } of model.values()) {
      const there = line.places.filter((place) => place.tokens <= tokens);
      for (const [index, place] of there.entries()) {
        const all = index === there.length - 1 ? tokens : place.tokens;
        expected.set(place.digest, Math.max(all, expected.get(place.digest) ?? 0));
      }
    }
    const reported = held.digestsOf("m").map((digest) => {
      const now = held.get(digest);
      return [digest, (now?.tokens ?? 0) + (now?.tailTokens ?? 0)] as const;
    });
    expect(new Map(reported)).toEqual(expected);
  }
});
