import { expect, test } from "vitest";
import { FrameCutter, frameHead } from "../../../../../../gateway/upstream/wire/http2/frames.ts";
import { SeededRandom } from "../../../../../support/seeded-random.ts";

const MAX_BYTES = 300;
const FRAMES = [0, 1, 8, 300, 0, 17].map((length, at) => ({
  ...{ type: at, flags: at + 1, streamId: at * 2 + 1, payload: String(at).repeat(length) },
}));
const BYTES = Buffer.concat(
  FRAMES.flatMap(({ type, flags, streamId, payload }) => [
    frameHead(payload.length, type, flags, streamId),
    Buffer.from(payload),
  ]),
);

function cutting(most = Number.POSITIVE_INFINITY) {
  const found: object[] = [];
  const cutter = new FrameCutter(MAX_BYTES, (type, flags, streamId, bytes, from, to) => {
    found.push({ type, flags, streamId, payload: bytes.toString("latin1", from, to) });
    return found.length < most;
  });
  return { cutter, found };
}

/** Feeds a piece whose memory is reused. */
function take(cutter: FrameCutter, from: number, to: number): boolean {
  const piece = Buffer.from(BYTES.subarray(from, to));
  const taken = cutter.take(piece);
  piece.fill(0xff);
  return taken;
}

test("two pieces are cut into the same frames wherever they are split", () => {
  for (let at = 0; at <= BYTES.length; at += 1) {
    const { cutter, found } = cutting();
    expect([take(cutter, 0, at), take(cutter, at, BYTES.length)]).toEqual([true, true]);
    expect(found).toEqual(FRAMES);
  }
});

test("pieces of any size are cut into the same frames", () => {
  const random = new SeededRandom(3);
  for (let round = 0; round < 200; round += 1) {
    const { cutter, found } = cutting();
    const most = 1 + random.below(40);
    for (let at = 0; at < BYTES.length; ) {
      const to = Math.min(BYTES.length, at + 1 + random.below(most));
      take(cutter, at, to);
      at = to;
    }
    expect(found).toEqual(FRAMES);
  }
});

test("nothing is cut behind a frame that ends the connection", () => {
  for (const size of [1, 7, BYTES.length]) {
    const { cutter, found } = cutting(3);
    for (let at = 0; at < BYTES.length && found.length < 3; at += size) take(cutter, at, at + size);
    expect(found).toEqual(FRAMES.slice(0, 3));
  }
});

test("a frame that is too large is detected by its head, wherever that is cut", () => {
  const head = frameHead(MAX_BYTES + 1, 0, 0, 1);
  for (let at = 0; at <= head.length; at += 1) {
    const { cutter, found } = cutting();
    const taken = [head.subarray(0, at), head.subarray(at)].map((piece) => cutter.take(piece));
    expect([taken.every(Boolean), found]).toEqual([false, []]);
  }
});
