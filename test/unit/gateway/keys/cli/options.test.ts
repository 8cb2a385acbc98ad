import { expect, test } from "vitest";
import { parseDurationMs, parseModels, readLine } from "../../../../../gateway/keys/cli/options.ts";

async function* chunks(list: readonly (string | Uint8Array)[], taken: (string | Uint8Array)[] = []) {
  for (const chunk of list) {
    taken.push(chunk);
    yield chunk;
  }
}

test.each([
  ["nothing", [], ""],
  ["a line without an end", ["key"], "key"],
  ["a line with blanks and its end", ["  key \r\n"], "key"],
  ["a line in pieces", ["k", "e", "y\nmore"], "key"],
  ["bytes, also when a character is cut", [Buffer.from([0xc3]), Buffer.from([0xa9, 0x0a])], "é"],
])("reads %s", async (_, list, line) => {
  expect(await readLine(chunks(list), 100)).toBe(line);
});

test.each([
  ["svc-qwen, svc-glm53,svc-qwen, +own-model.v2", ["svc-qwen", "svc-glm53", "own-model.v2"]],
  ["all", ["*"]],
])("%j names models", (text, models) => expect(parseModels(text)).toEqual(models));

test.each(["svc-qwne", "own-model", "+", "+a/b", ""])("%j names no model, so that a typo is reported", (text) => {
  expect(() => parseModels(text)).toThrow("Not in the catalog.");
});

test("reads no further than it has to", async () => {
  const taken: (string | Uint8Array)[] = [];
  await readLine(chunks(["key\n", "more"], taken), 100);
  expect(taken).toEqual(["key\n"]);
  taken.length = 0;
  await readLine(chunks(["x".repeat(60), "x".repeat(60), "x"], taken), 100);
  expect(taken).toHaveLength(2);
});

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
