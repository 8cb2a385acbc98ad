import { expect, test } from "vitest";
import { framed, MessageCutter, prefixOf } from "../../../../../gateway/upstream/wire/message-cutter.ts";

const MESSAGES = ["", "a", "bc".repeat(40), "", "d".repeat(300)];
const BYTES = Buffer.concat(MESSAGES.map((text) => framed(Buffer.from(text))));

function cutting(maxBytes = 1_000) {
  const found: string[] = [];
  const cutter = new MessageCutter(maxBytes, (bytes, from, to) => found.push(bytes.toString("latin1", from, to)));
  return { cutter, found };
}

test.each([1, 2, 3, 4, 5, 6, 7, 50, BYTES.length])("pieces of %i bytes give the same messages", (size) => {
  const { cutter, found } = cutting();
  for (let at = 0; at < BYTES.length; at += size) {
    // The reader reuses its memory.
    const piece = Buffer.from(BYTES.subarray(at, at + size));
    expect(cutter.take(piece, 0, piece.length)).toBeUndefined();
    piece.fill(0xff);
  }
  expect(found).toEqual(MESSAGES);
});

test("two pieces give the same messages at any division", () => {
  for (let at = 0; at <= BYTES.length; at += 1) {
    const { cutter, found } = cutting();
    cutter.take(BYTES, 0, at);
    cutter.take(BYTES, at, BYTES.length);
    expect(found).toEqual(MESSAGES);
  }
});

test("an incomplete message is detected", () => {
  const { cutter, found } = cutting();
  cutter.take(BYTES, 0, BYTES.length - 1);
  expect(found).toHaveLength(MESSAGES.length - 1);
});

test("a too large or compressed message is reported before it is complete, after valid ones", () => {
  const { cutter, found } = cutting(10);
  const bytes = Buffer.concat([framed(Buffer.from("well")), prefixOf(11)]);
  expect(cutter.take(bytes, 0, bytes.length)).toEqual({ kind: "too_large", bytes: 11 });
  expect(found).toEqual(["well"]);
  expect(cutting().cutter.take(Buffer.from([1, 0, 0, 0, 0]), 0, 5)).toEqual({ kind: "compressed" });
});

test("a message in pieces of a byte takes little more than its bytes", () => {
  const { cutter, found } = cutting(2_000_000);
  const prefix = prefixOf(1_000_000);
  cutter.take(prefix, 0, prefix.length);
  const piece = Buffer.from("m");
  const before = process.memoryUsage().heapUsed;
  for (let at = 1; at < 1_000_000; at += 1) cutter.take(piece, 0, 1);
  // An object for each of them would take a hundred megabytes.
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(20_000_000);
  cutter.take(piece, 0, 1);
  expect(found).toEqual(["m".repeat(1_000_000)]);
});
