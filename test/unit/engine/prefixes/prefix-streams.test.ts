import { expect, test } from "vitest";
import { HeldPrefixes } from "../../../../engine/prefixes/held-prefixes.ts";
import { PrefixStreams } from "../../../../engine/prefixes/prefix-streams.ts";
import type { WatchPrefixesResponse } from "../../../../proto/gen/svc/inference/v1/node_service.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const digest = (index: number) => String(index).padStart(16, "0");
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** A reader of one stream, which can fall behind, and records its messages. */
class Reader {
  readonly messages: WatchPrefixesResponse[] = [];
  readonly known = new Map<string, number>();
  keepsUp = true;
  isEnded = false;
  #drain = () => {};

  readonly sink = {
    write: (message: WatchPrefixesResponse) => {
      this.messages.push(message);
      if (message.reset) this.known.clear();
      for (const { digest: bytes, tokens, tailTokens } of message.held)
        this.known.set(bytes.toString("latin1"), tokens + tailTokens);
      for (let at = 0; at < message.dropped.length; at += 16)
        this.known.delete(message.dropped.toString("latin1", at, at + 16));
      return this.keepsUp;
    },
    onDrain: (listener: () => void) => {
      this.#drain = listener;
    },
    end: () => {
      this.isEnded = true;
    },
  };

  catchUp(): void {
    this.keepsUp = true;
    this.#drain();
  }
}

function setUp() {
  const kv = { used: 0, total: 1_000 };
  const clock = new VirtualClock();
  const held = new HeldPrefixes(() => ({ ...kv }));
  const streams = new PrefixStreams(held, clock);
  const hold = (index: number, tokens = 10) => held.hold(digest(index), { model: "m", tokens, tailTokens: 1 });
  return { kv, clock, held, streams, hold };
}

test("many prefixes of the model are sent in several messages, the first of which resets", async () => {
  const { held, streams, hold } = setUp();
  held.hold(digest(9_999), { model: "other", tokens: 5, tailTokens: 0 });
  for (let index = 0; index < 3_000; index += 1) hold(index);
  const reader = new Reader();
  streams.open("m", reader.sink);
  expect(reader.messages.map(({ reset }) => reset)).toEqual([true, false, false]);
  expect(reader.known.size).toBe(3_000);
});

test("a slow reader gets the last state of each prefix, and beyond the limit a reset", async () => {
  const { held, streams, hold } = setUp();
  const reader = new Reader();
  streams.open("m", reader.sink);
  reader.keepsUp = false;
  hold(1);
  await settled();
  for (let tokens = 20; tokens < 30; tokens += 1) hold(1, tokens);
  await settled();
  expect(reader.messages).toHaveLength(2);
  reader.catchUp();
  expect(reader.messages).toHaveLength(3);
  expect(reader.known.get(digest(1))).toBe(30);

  reader.keepsUp = false;
  hold(1, 40);
  await settled();
  for (let index = 2; index < 20_000; index += 1) {
    hold(index);
    if (index < 19_990) held.drop(digest(index));
  }
  await settled();
  const before = reader.messages.length;
  reader.catchUp();
  expect(reader.messages[before]).toMatchObject({ reset: true });
  expect(new Set(reader.known.keys())).toEqual(new Set(held.digestsOf("m")));
});

test("KV tokens are sent again after a change of a hundredth, without other changes", async () => {
  const { kv, clock, streams } = setUp();
  const reader = new Reader();
  streams.open("m", reader.sink);
  kv.used = 5;
  await clock.advance(1_000);
  expect(reader.messages).toHaveLength(1);
  kv.used = 50;
  await clock.advance(1_000);
  expect(reader.messages.at(-1)).toMatchObject({ reset: false, held: [], kvTokensUsed: 50 });
});

test("prefix streams end once the cached tokens of answers repeatedly contradict the announcements", () => {
  const { held, streams } = setUp();
  const reader = new Reader();
  streams.open("m", reader.sink);
  const finding = { before: 1_600, after: 1_600, found: 0, isAlone: true, blockTokens: 16 };
  while (held.isAnnounced) {
    expect(reader.isEnded).toBe(false);
    held.found(finding);
  }
  expect(reader.isEnded).toBe(true);
});
