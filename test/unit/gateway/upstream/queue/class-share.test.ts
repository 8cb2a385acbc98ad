import { expect, test } from "vitest";
import {
  ClassShare,
  DEFAULT_CLASS_SHARES,
  type PriorityClass,
} from "../../../../../gateway/upstream/queue/class-share.ts";

/** Serves `count` requests of cost 1 to the classes in `waiting`, which always have work. */
function serve(share: ClassShare, count: number, waiting: readonly PriorityClass[]): Record<PriorityClass, number> {
  const served = { high: 0, default: 0, low: 0 };
  for (let index = 0; index < count; index += 1) {
    const name = share.next((candidate) => waiting.includes(candidate));
    if (!name) break;
    share.served(name, 1);
    served[name] += 1;
  }
  return served;
}

test("classes that all have work get 80, 15 and 5 of a hundred", () => {
  const served = serve(new ClassShare(DEFAULT_CLASS_SHARES), 1_000, ["high", "default", "low"]);
  expect(Math.abs(served.high - 800)).toBeLessThanOrEqual(2);
  expect(Math.abs(served.default - 150)).toBeLessThanOrEqual(2);
  expect(Math.abs(served.low - 50)).toBeLessThanOrEqual(2);
});

test("the most urgent one is first", () => {
  const share = new ClassShare(DEFAULT_CLASS_SHARES);
  expect(share.next(() => true)).toBe("high");
  expect(share.next((name) => name !== "high")).toBe("default");
});

test("nobody waits, nobody is next", () => {
  expect(new ClassShare(DEFAULT_CLASS_SHARES).next(() => false)).toBeUndefined();
});

test("what one class does not use the others get", () => {
  const served = serve(new ClassShare(DEFAULT_CLASS_SHARES), 200, ["default", "low"]);
  expect(served).toEqual({ high: 0, default: 150, low: 50 });
});

test("a class that was idle has saved nothing up", () => {
  const share = new ClassShare(DEFAULT_CLASS_SHARES);
  serve(share, 10_000, ["high"]);
  share.wake("low");
  const served = serve(share, 100, ["high", "low"]);
  expect(served.low).toBeLessThanOrEqual(8);
});

test("what was taken back was not served", () => {
  const share = new ClassShare(DEFAULT_CLASS_SHARES);
  for (let index = 0; index < 100; index += 1) {
    share.served("high", 1_000);
    share.takeBack("high", 1_000);
  }
  expect(serve(share, 100, ["high", "default", "low"])).toEqual(
    serve(new ClassShare(DEFAULT_CLASS_SHARES), 100, ["high", "default", "low"]),
  );
});
