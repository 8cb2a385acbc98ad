import { expect, test } from "vitest";
import { InflightBodies } from "../../../../gateway/overload/inflight-bodies.ts";

test("bodies count together up to the limit, and give back what they took", () => {
  const bodies = new InflightBodies(100);
  const [one, other] = [bodies.begin(), bodies.begin()];
  expect([one.add(60), other.add(40), bodies.bytes]).toEqual([true, true, 100]);
  expect([bodies.hasRoom(1), other.add(1), bodies.bytes]).toEqual([false, false, 100]);
  one.release();
  one.release();
  expect([bodies.bytes, bodies.hasRoom(60), bodies.hasRoom(61)]).toEqual([40, true, false]);
  other.release();
  expect(bodies.bytes).toBe(0);
});
