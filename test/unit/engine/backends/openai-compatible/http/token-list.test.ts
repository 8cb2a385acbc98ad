import { describe, expect, test } from "vitest";
import { toJsonBytes, toJsonText } from "../../../../../../engine/backends/openai-compatible/http/raw-json.ts";
import { readTokens, TokenList } from "../../../../../../engine/backends/openai-compatible/http/token-list.ts";
import { SeededRandom } from "../../../../../support/seeded-random.ts";

const read = (text: string, name = "tokens", turn = async () => {}) => readTokens(Buffer.from(text), name, turn);

describe("a list of tokens in a body", () => {
  test("a list of tokens in a body is what JSON.stringify writes, over all its parts", async () => {
    const random = new SeededRandom(7);
    const bounds = [0, 9, 10, 99, 100, 2 ** 31, 2 ** 32 - 1];
    const tokens = [...bounds, ...Array.from({ length: 100_000 }, () => Math.floor(random.next() * 2 ** 32))];
    const list = new TokenList(Uint32Array.from(tokens), [], [1, 2]);
    expect(toJsonText({ list })).toBe(JSON.stringify({ list: [...tokens, 1, 2] }));
    const bytes = await toJsonBytes({ before: "é", list, after: 1 }, async () => {});
    expect(JSON.parse(Buffer.concat(bytes).toString())).toEqual({ before: "é", list: [...tokens, 1, 2], after: 1 });
  });

  test("a list of tokens in a body is empty without tokens", () =>
    expect(toJsonText(new TokenList([], []))).toBe("[]"));

  test("a list of tokens in a body takes turns with other work", async () => {
    let turns = 0;
    await toJsonBytes(new TokenList(new Uint32Array(1_000_000).fill(123_456)), async () => {
      turns += 1;
    });
    expect(turns).toBeGreaterThanOrEqual(5);
  });
});

describe("a list of tokens in a reply", () => {
  test("a list of tokens in a reply is read beside the other fields", async () => {
    const { tokens, fields } = await read('{"id": "a", "tokens" : [ 0,12 , 4294967295 ], "count":3}');
    expect([...tokens]).toEqual([0, 12, 4294967295]);
    expect(fields).toEqual({ id: "a", tokens: [], count: 3 });
  });

  test("a list of tokens in a reply is not one that a string holds", async () => {
    const { tokens } = await read(JSON.stringify({ said: '"tokens":[9]', also: "tokens", tokens: [1] }));
    expect([...tokens]).toEqual([1]);
  });

  test("a list of tokens in a reply is read in turns, and any number of them", async () => {
    let turns = 0;
    const list = Array.from({ length: 700_000 }, (_, at) => at % 11);
    const { tokens } = await read(JSON.stringify({ tokens: list }), "tokens", async () => {
      turns += 1;
    });
    expect(Buffer.from(Uint32Array.from(list).buffer).equals(Buffer.from(tokens.slice().buffer))).toBe(true);
    expect(turns).toBeGreaterThanOrEqual(4);
  });

  test.each([
    "{}",
    '{"tokens":[]}',
    '{"tokens":[1',
    '{"tokens":[1,]}',
    '{"tokens":[1.5]}',
    '{"tokens":[-1]}',
    '{"tokens":[4294967296]}',
    '{"tokens":["a"]}',
    '{"tokens":[1]} x',
    "x",
  ])("a list of tokens in a reply is refused where it is none: %s", (text) =>
    expect(read(text)).rejects.toMatchObject({ reason: "PROTOCOL_VIOLATION" }),
  );
});
