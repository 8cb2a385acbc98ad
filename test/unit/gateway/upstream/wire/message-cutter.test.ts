import { expect, test } from "vitest";
import { framed, MessageCutter, prefixOf } from "../../../../../gateway/upstream/wire/message-cutter.ts";

const MESSAGES = ["", "a", "bc".repeat(40), "", "d".repeat(300)];
const BYTES = Buffer.concat(MESSAGES.map((text) => framed(Buffer.from(text))));

function cutting(maxBytes: number) {
  const found: string[] = [];
  const message = (bytes: Buffer, from: number, to: number) => found.push(bytes.toString("latin1", from, to));
  const cutter = new MessageCutter(maxBytes, { message });
  return { cutter, found };
}

test("two pieces are cut into the same messages wherever they are split", () => {
  for (let at = 0; at <= BYTES.length; at += 1) {
    const { cutter, found } = cutting(1_000);
    cutter.take(BYTES, 0, at);
    cutter.take(BYTES, at, BYTES.length);
    expect(found).toEqual(MESSAGES);
  }
});

test("a message in pieces of a byte uses little more than its bytes", () => {
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
