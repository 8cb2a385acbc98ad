import { expect, test } from "vitest";
import { HeaderReader, headerBlock } from "../../../../../../gateway/upstream/wire/http2/hpack.ts";
import { SeededRandom } from "../../../../../support/seeded-random.ts";
import { sizeOf } from "../../../../../support/size.ts";

const MAX_LIST_BYTES = 4_096;

function reading(maxListBytes = MAX_LIST_BYTES) {
  const reader = new HeaderReader(maxListBytes);
  return (block: Buffer) => reader.read(block, 0, block.length);
}

const hex = (...lines: readonly string[]) => Buffer.from(lines.join("").replaceAll(" ", ""), "hex");

/* The bytes are those of the examples of RFC 7541, appendix C. */

test("C.3 and C.4: requests of one connection, each of which refers to those before it", () => {
  const plain = [
    "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
    "8286 84be 5808 6e6f 2d63 6163 6865",
    "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
  ];
  const huffman = [
    "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
    "8286 84be 5886 a8eb 1064 9cbf",
    "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
  ];
  const first = { ":method": "GET", ":scheme": "http", ":path": "/", ":authority": "www.example.com" };
  const third = { ...first, ":scheme": "https", ":path": "/index.html", "custom-key": "custom-value" };
  for (const blocks of [plain, huffman])
    expect(blocks.map((block) => hex(block)).map(reading())).toEqual([
      first,
      { ...first, "cache-control": "no-cache" },
      third,
    ]);
});

test("C.6: answers of one connection, whose table has room for a few fields only", () => {
  const read = reading();
  // The size of the table comes first: 256 bytes.
  const first = hex(
    "3fe1 01 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6",
    "2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
  );
  const date = "Mon, 21 Oct 2013 20:13:21 GMT";
  const answer = { "cache-control": "private", date, location: "https://www.example.com" };
  expect(read(first)).toEqual({ ":status": "302", ...answer });
  expect(read(hex("4883 640e ffc1 c0bf"))).toEqual({ ":status": "307", ...answer });
  const third = hex(
    "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7",
    "821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
  );
  expect(read(third)).toEqual({
    ...{ ":status": "200", ...answer, date: "Mon, 21 Oct 2013 20:13:22 GMT", "content-encoding": "gzip" },
    "set-cookie": "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
  });
});

test("written fields are read back, whatever their length", () => {
  for (const length of [0, 1, 126, 127, 128, 254, 255, 1_000]) {
    const fields: [string, string][] = [
      [`x-${"n".repeat(length)}`, "v"],
      ["x-short", "\u00e9".repeat(length)],
    ];
    expect(reading()(headerBlock(fields))).toEqual(Object.fromEntries(fields));
  }
});

test("a field that comes twice has both values", () => {
  const twice = headerBlock([
    ["a", "1"],
    ["a", "2"],
  ]);
  expect(reading()(twice)).toEqual({ a: "1, 2" });
});

test.each([
  ["a field that there is none of", hex("80")],
  ["one that was never added", hex("be")],
  ["the name of one", hex("7e01 61")],
  ["a number without an end", hex("ff ffff ffff ffff")],
  ["a number that is cut", hex("ff80")],
  ["a text that is cut", hex("0005 6162")],
  ["a field without a value", hex("0001 61")],
  ["a table larger than was allowed", hex("3fe2 1f")],
  ["Huffman codes that end in zeros", hex("0081 1800")],
  ["Huffman codes with a whole byte behind them", hex("0082 1fff 00")],
  ["Huffman codes with an end in them", hex("0084 ffff fffc 00")],
])("%s is no block", (_name, block) => {
  expect(reading()(block)).toBeUndefined();
});

test("a small block that expands beyond the limit is rejected", () => {
  const long = headerBlock([["x".repeat(500), "y".repeat(500)]]);
  // Added to the table, and referred to again and again.
  long[0] = 0x40;
  expect(reading()(Buffer.concat([long, Buffer.alloc(2, 0xbe)]))).toBeDefined();
  expect(reading()(Buffer.concat([long, Buffer.alloc(200, 0xbe)]))).toBeUndefined();
});

test("whatever the bytes, a block is read within its limit or rejected", () => {
  const random = new SeededRandom(11);
  const known = hex("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf");
  let read = 0;
  for (let round = 0; round < sizeOf({ quick: 1_000, exhaustive: 20_000, promised: 200_000 }); round += 1) {
    const next = reading();
    for (let blocks = 0; blocks < 5; blocks += 1) {
      const block = round % 2 === 0 ? Buffer.from(known) : Buffer.alloc(random.below(80));
      const changes = round % 2 === 0 ? random.below(4) : block.length;
      for (let change = 0; change < changes; change += 1) block[random.below(block.length)] = random.below(256);
      const headers = next(block);
      if (!headers) continue;
      read += 1;
      const bytes = Object.entries(headers).map(([name, value]) => name.length + value.length);
      expect(bytes.reduce((sum, more) => sum + more, 0)).toBeLessThanOrEqual(MAX_LIST_BYTES);
    }
  }
  expect(read).toBeGreaterThan(100);
});
