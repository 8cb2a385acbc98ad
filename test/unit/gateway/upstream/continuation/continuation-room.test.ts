import { expect, test } from "vitest";
import {
  ContinuationRoom,
  continuationBytes,
  type KeptAnswer,
} from "../../../../../gateway/upstream/continuation/continuation-room.ts";

function kept(answer: KeptAnswer | string): KeptAnswer {
  if (typeof answer === "string") throw new Error(`not kept: ${answer}`);
  return answer;
}

const never = () => false;

test("answers are kept while there is room, and return it once", () => {
  const room = new ContinuationRoom({ maxBytes: 100 });
  const one = kept(room.keep("a", 5, never));
  const other = kept(room.keep("b", 50, never));
  expect(room.keep("c", 46, never)).toBe("no_room");
  expect(one.grow(20)).toBeUndefined();
  expect(one.grow(1)).toBe("no_room_for_key");
  expect(room).toMatchObject({ bytes: 75, answers: 2 });
  for (const answer of [one, one, other]) answer.release();
  expect(room).toMatchObject({ bytes: 0, answers: 0 });
  kept(room.keep("b", 100, never));
});

test("a tenant uses no more than half of what others leave, except for a single answer", () => {
  const room = new ContinuationRoom({ maxBytes: 100 });
  const big = kept(room.keep("a", 70, never));
  expect(room.keep("a", 1, never)).toBe("no_room_for_key");
  kept(room.keep("b", 30, never));
  big.release();
  kept(room.keep("a", 20, never));
  kept(room.keep("a", 15, never));
  expect(room.keep("a", 1, never)).toBe("no_room_for_key");
});

test("an overloaded process keeps no more answers", () => {
  let inTrouble = false;
  const room = new ContinuationRoom({ maxBytes: 100, inTrouble: () => inTrouble });
  kept(room.keep("a", 1, never));
  inTrouble = true;
  expect(room.keep("a", 1, never)).toBe("overload");
});

test("the largest answers are dropped first, until enough memory is freed", () => {
  const room = new ContinuationRoom({ maxBytes: 1_000 });
  const gone: number[] = [];
  for (const bytes of [10, 400, 100, 300, 190]) {
    const answer = kept(
      room.keep(`${bytes}`, bytes, () => {
        // An answer that another engine continues just then stays.
        if (bytes === 300) return false;
        gone.push(bytes);
        answer.release();
        return true;
      }),
    );
  }
  expect(room.releaseShare(0.25)).toBe(1);
  expect([gone, room.bytes]).toEqual([[400], 600]);
  expect(room.releaseShare(0.25)).toBe(1);
  expect(room.releaseShare(1)).toBe(2);
  expect([gone, room.bytes, room.answers]).toEqual([[400, 190, 100, 10], 300, 1]);
  expect(room.releaseShare(1)).toBe(0);
});

test("the callback runs each time when the total is used up, not when a tenant's share is", () => {
  let times = 0;
  const room = new ContinuationRoom({ maxBytes: 100, onFull: () => (times += 1) });
  kept(room.keep("a", 50, never));
  expect([room.keep("a", 10, never), times]).toEqual(["no_room_for_key", 0]);
  expect([room.keep("b", 60, never), times]).toEqual(["no_room", 1]);
  expect([room.keep("c", 51, never), times]).toEqual(["no_room", 2]);
});

test("the default size is an eighth of the memory, at most 256 MiB", () => {
  expect([continuationBytes(800), continuationBytes(2 ** 40)]).toEqual([100, 2 ** 28]);
});
