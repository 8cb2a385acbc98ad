import { expect, test } from "vitest";
import { DeltaReader } from "../../../../../gateway/upstream/call/delta-reader.ts";
import { type Event, GenerateResponse } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { blockEnd, delta, started, textStart } from "../../../../support/events/events.ts";

const encode = (events: readonly Event[], tokens: readonly number[] = []) =>
  Buffer.from(GenerateResponse.encode({ events, tokens }).finish());

const read = (bytes: Buffer, index: number) => {
  const reader = new DeltaReader();
  // Other messages lie around it.
  const around = Buffer.concat([Buffer.from([0x0a, 0, 0x0a]), bytes, Buffer.from([0, 0x12, 0xff])]);
  return reader.read(around, 3, 3 + bytes.length, index)
    ? { texts: [...reader.texts], tokens: [...reader.tokens] }
    : undefined;
};

/**
 * Reads by the decoder the messages that a reader may read: texts and tokens of a message that only continues the
 * block.
 */
function byDecoder(bytes: Buffer, index: number) {
  const { events, tokens } = GenerateResponse.decode(bytes);
  const texts = events.map(({ kind }) => {
    if (kind?.$case !== "blockDelta" || kind.value.index !== index || kind.value.logprobs.length > 0) return undefined;
    return kind.value.text || undefined;
  });
  return texts.length > 0 && !texts.includes(undefined) ? { texts, tokens } : undefined;
}

const withLogprobs: Event = {
  kind: {
    $case: "blockDelta",
    value: {
      index: 0,
      text: "a",
      logprobs: [{ token: "a", tokenBytes: Buffer.from("a"), logprob: -1, alternatives: [] }],
    },
  },
};

const LONG = "x".repeat(70_000);

test.each([
  ["one piece of text", 0, ["a"], []],
  ["escapes and line ends", 0, ['"\\\n\u0001\u007f'], [7]],
  ["two bytes, three and four", 1, ["é", "漢字", "😀"], [1, 2, 3]],
  ["a text that takes three bytes to say how long it is", 130, [LONG], [0, 127, 128, 16_384, 4_294_967_295]],
  ["as many deltas as a node joins", 3, Array.from({ length: 32 }, (_, at) => `${at} `), []],
])("%s is read as the decoder reads it", (_what, index, texts, tokens) => {
  const bytes = encode(
    texts.map((text) => delta(index, text)),
    tokens,
  );
  expect(read(bytes, index)).toEqual({ texts, tokens });
  expect(read(bytes, index + 1)).toBeUndefined();
});

test("an index of 0 may be written, too", () => {
  expect(read(Buffer.from([0x0a, 7, 0x1a, 5, 0x08, 0, 0x12, 1, 0x61]), 0)).toEqual({ texts: ["a"], tokens: [] });
});

test("whatever byte is cut off or changed, it reads the same as the decoder or nothing", () => {
  const messages = [
    encode([delta(0, "Hé")], [300]),
    encode([delta(2, "ab"), delta(2, "c")], [1, 2]),
    encode([started(), textStart(0), delta(0, "a"), blockEnd(0)]),
    encode([withLogprobs]),
  ];
  let taken = 0;
  for (const message of messages) {
    for (let end = 0; end < message.length; end += 1) judge(message.subarray(0, end));
    for (let at = 0; at < message.length; at += 1)
      for (let value = 0; value < 256; value += 1) {
        const changed = Buffer.from(message);
        changed[at] = value;
        judge(changed);
      }
  }
  expect(taken).toBeGreaterThan(500);

  function judge(bytes: Buffer): void {
    for (const index of [0, 2]) {
      const found = read(bytes, index);
      if (!found) continue;
      taken += 1;
      expect(found).toEqual(byDecoder(bytes, index));
    }
  }
});
