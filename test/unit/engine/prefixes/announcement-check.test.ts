import { expect, test } from "vitest";
import { AnnouncementCheck, type PromptFinding } from "../../../../engine/prefixes/announcement-check.ts";

const finding = (found: number, fields: Partial<PromptFinding> = {}): PromptFinding => ({
  ...{ before: 1_600, after: 1_600, isAlone: true, blockTokens: 16 },
  found,
  ...fields,
});

test.each<[string, PromptFinding, "more" | "less" | undefined]>([
  ["as much as announced", finding(1_600), undefined],
  ["but for the last two blocks", finding(1_568), undefined],
  ["less", finding(1_500), "less"],
  ["less of a prompt that waited behind others, which may have evicted it", finding(0, { isAlone: false }), undefined],
  ["more than is announced in the end", finding(1_700), "more"],
  ["more, by blocks that were in flight", finding(1_700, { after: 1_760 }), undefined],
])("an engine that finds %s", (_what, one, contradiction) => {
  expect(new AnnouncementCheck().take(one)).toBe(contradiction);
});

test("a few contradictions among agreements leave the announcements trusted", () => {
  const check = new AnnouncementCheck();
  for (let turn = 0; turn < 100; turn += 1) check.take(finding(turn % 3 === 0 ? 0 : 1_600));
  expect(check.isTrusted).toBe(true);
});

test("repeated contradictions end the trust, and agreements in a row restore it", () => {
  const check = new AnnouncementCheck();
  const trusts = (one: PromptFinding) => {
    check.take(one);
    return check.isTrusted;
  };
  const wrong = finding(1_700);
  expect([wrong, wrong, wrong, wrong].map(trusts)).toEqual([true, true, true, false]);
  // New conversations, of which nothing is cached, show nothing.
  for (let turn = 0; turn < 20; turn += 1) expect(trusts(finding(0, { before: 0, after: 0 }))).toBe(false);
  for (let turn = 0; turn < 7; turn += 1) expect(trusts(finding(1_600))).toBe(false);
  expect(trusts(wrong)).toBe(false);
  for (let turn = 0; turn < 7; turn += 1) expect(trusts(finding(1_600))).toBe(false);
  expect(trusts(finding(1_600))).toBe(true);
});
