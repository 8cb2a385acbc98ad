import { expect, test } from "vitest";
import { parseDurationMs } from "../../../../../gateway/keys/cli/duration.ts";

test.each([
  ["0", 0],
  ["0h", 0],
  ["90s", 90_000],
  ["30m", 1_800_000],
  ["24h", 86_400_000],
  ["90d", 7_776_000_000],
  ["", undefined],
  ["24", undefined],
  ["h", undefined],
  ["-1h", undefined],
  ["1.5h", undefined],
  ["1w", undefined],
  ["1h ", undefined],
  ["36501d", undefined],
  ["999999999999d", undefined],
])("%j is %s ms", (text, ms) => {
  expect(parseDurationMs(text)).toBe(ms);
});
