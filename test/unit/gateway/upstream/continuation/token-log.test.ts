import { expect, test } from "vitest";
import { TokenLog } from "../../../../../gateway/upstream/continuation/token-log.ts";

test.each([0, 1, 63, 64, 65, 191, 192, 193, 4_031, 4_032, 4_033, 6_079, 6_080, 6_081, 10_000])(
  "%i tokens are returned in order",
  (count) => {
    const log = new TokenLog();
    const tokens = Array.from({ length: count }, (_, at) => (at * 2_654_435_761) % 4_294_967_296);
    for (const token of tokens) log.push(token);
    expect(log.size).toBe(count);
    expect(log.all()).toEqual(tokens);
    expect(tokens.every((token, at) => log.at(at) === token)).toBe(true);
    expect(log.at(count)).toBeUndefined();
  },
);

test("a token takes 4 bytes, and at most one chunk is partly empty", () => {
  const log = new TokenLog();
  expect(log.bytes).toBe(0);
  for (let at = 0; at < 20_000; at += 1) log.push(at);
  expect(log.bytes).toBeGreaterThanOrEqual(80_000);
  expect(log.bytes).toBeLessThan(80_000 + 8_192);
});
