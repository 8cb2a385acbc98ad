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

test("answers are kept as long as there is room, and give it back once", () => {
  const room = new ContinuationRoom({ maxBytes: 100, maxShareOfKey: 1 });
  const one = kept(room.keep("a", 60));
  expect(room.keep("b", 50)).toBe("no_room");
  expect(one.grow(30)).toBeUndefined();
  expect(one.grow(30)).toBe("no_room");
  expect(room).toMatchObject({ bytes: 90, answers: 1 });
  one.release();
  one.release();
  expect(room).toMatchObject({ bytes: 0, answers: 0 });
  kept(room.keep("b", 100));
});

test("a tenant fills no more than its share, but for a single answer", () => {
  const room = new ContinuationRoom({ maxBytes: 100, maxShareOfKey: 0.5 });
  const big = kept(room.keep("a", 70));
  expect(room.keep("a", 1)).toBe("no_room_for_key");
  kept(room.keep("b", 30));
  big.release();
  kept(room.keep("a", 20));
  kept(room.keep("a", 30));
  expect(room.keep("a", 1)).toBe("no_room_for_key");
});

test("a process in trouble keeps no more", () => {
  let inTrouble = false;
  const room = new ContinuationRoom({ maxBytes: 100, maxShareOfKey: 1, inTrouble: () => inTrouble });
  kept(room.keep("a", 1));
  inTrouble = true;
  expect(room.keep("a", 1)).toBe("overload");
});

test("without a size it is an eighth of the memory, at most 256 MiB", () => {
  expect([continuationBytes(800), continuationBytes(2 ** 40)]).toEqual([100, 2 ** 28]);
});
