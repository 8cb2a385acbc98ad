import { expect, test } from "vitest";
import { SseReader } from "../../../../../../engine/backends/openai-compatible/http/event-stream.ts";

const STREAM =
  ': ping\n\ndata: {"a":"é✓"}\r\n\r\nevent: x\ndata:one\ndata: two\n\n\n\ndata: [DONE]\n\ndata: unfinished\n';
const EVENTS = ['{"a":"é✓"}', "one\ntwo", "[DONE]"];

test("any split of the bytes gives the same events", () => {
  const bytes = Buffer.from(STREAM);
  for (let at = 0; at <= bytes.length; at += 1) {
    const reader = new SseReader();
    expect([...reader.push(bytes.subarray(0, at)), ...reader.push(bytes.subarray(at))]).toEqual(EVENTS);
  }
  const reader = new SseReader();
  expect([...bytes].flatMap((byte) => [...reader.push(Uint8Array.of(byte))])).toEqual(EVENTS);
});

test.each([
  ["a line", "data: "],
  ["an event", `data: ${"x".repeat(1_000)}\n`],
])("%s without end is a protocol violation, not a leak", (_what, piece) => {
  const reader = new SseReader();
  const bytes = Buffer.from(piece.repeat(64));
  expect(() => {
    for (let round = 0; round < 2 ** 16; round += 1) reader.push(bytes);
  }).toThrow(/without end/);
});
