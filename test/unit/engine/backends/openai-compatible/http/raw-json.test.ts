import { describe, expect, test } from "vitest";
import {
  DataUrl,
  rawObject,
  toJsonBytes,
  toJsonText,
} from "../../../../../../engine/backends/openai-compatible/http/raw-json.ts";

test("raw text is unchanged among serialized values", () => {
  const raw = rawObject('{ "b": 1.0, "a": 12345678901234567890, "b": 2 }');
  expect(toJsonText({ list: [raw, null, "é\n"], gone: undefined, on: true })).toBe(
    '{"list":[{ "b": 1.0, "a": 12345678901234567890, "b": 2 },null,"é\\n"],"on":true}',
  );
});

test.each(["", "[]", "1", '{"a":1', '{"a":1}}', '{"a":1},"model":"x"', "{} {}"])("%j is not an object", (text) => {
  expect(rawObject(text)).toBeUndefined();
});

describe("a large value is written in portions, with the same text", () => {
  const smiles = `x${"😀".repeat(100_000)}\n"`;
  const image = Buffer.from(Array.from({ length: 500_000 }, (_, at) => at % 251));
  const value = {
    texts: [smiles, "a".repeat(2_000_000), ""],
    many: Array.from({ length: 50_000 }, (_, at) => ({ at, gone: undefined, text: "é" })),
    url: new DataUrl('image/"png', image),
    raw: rawObject('{"a":  1.0}'),
    empty: [{}, [], null],
  };

  test("a large value is written in portions in UTF-8, without splitting characters, and with the bytes of images", async () => {
    const bytes = Buffer.concat(await toJsonBytes(value, async () => {}));
    expect(bytes.toString()).toBe(toJsonText(value));
    const read = JSON.parse(bytes.toString());
    expect(read.texts[0] === smiles && read.texts[1] === value.texts[1]).toBe(true);
    expect(read.many).toHaveLength(50_000);
    expect(read.url === `data:image/"png;base64,${image.toString("base64")}`).toBe(true);
    expect(read.empty).toEqual([{}, [], null]);
    expect(bytes.includes("\\ud8")).toBe(false);
  });

  test("a large value is written in portions and yields to the event loop after each", async () => {
    let turns = 0;
    const bytes = await toJsonBytes(value, async () => {
      turns += 1;
    });
    expect(turns).toBeGreaterThan(4);
    expect(Math.max(...bytes.map(({ length }) => length))).toBeLessThan(4_000_000);
    await toJsonBytes({ small: "text" }, () => Promise.reject(new Error("no turn for so little")));
  });

  test("a large value is written in portions and stops once the caller has left", async () => {
    await expect(toJsonBytes(value, () => Promise.reject(new Error("left")))).rejects.toThrow("left");
  });
});
