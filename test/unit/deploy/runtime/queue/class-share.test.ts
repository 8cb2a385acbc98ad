import { expect, test } from "vitest";
import { ClassShare, type PriorityClass } from "../../../../../deploy/runtime/queue/class-share.ts";

const among = (names: readonly PriorityClass[]) => (name: PriorityClass) => (names.includes(name) ? 1 : undefined);

/** Serves `count` items of cost 1 to the classes in `waiting`, which always have work. */
function serve(share: ClassShare, count: number, waiting: readonly PriorityClass[]): Record<PriorityClass, number> {
  const served = { high: 0, default: 0, low: 0 };
  for (let index = 0; index < count; index += 1) {
    const name = share.next(among(waiting));
    if (!name) break;
    share.served(name, 1);
    served[name] += 1;
  }
  return served;
}

test("classes that all have work get 80, 15 and 5 of a hundred", () => {
  const served = serve(new ClassShare(), 1_000, ["high", "default", "low"]);
  expect(Math.abs(served.high - 800)).toBeLessThanOrEqual(2);
  expect(Math.abs(served.default - 150)).toBeLessThanOrEqual(2);
  expect(Math.abs(served.low - 50)).toBeLessThanOrEqual(2);
});

test("the more urgent class is first, until the share of another pays for its item", () => {
  const share = new ClassShare();
  expect(serve(share, 5, ["high", "default", "low"])).toEqual({ high: 5, default: 0, low: 0 });
  expect(share.next(among(["high", "default"]))).toBe("default");
  expect(new ClassShare().next(among(["default", "low"]))).toBe("default");
});

test("an item that costs much is paid for longer", () => {
  const share = new ClassShare({ high: 1, default: 1, low: 1 });
  const costs = { high: 10, default: 35, low: undefined };
  const order: string[] = [];
  for (let index = 0; index < 4; index += 1) {
    const name = share.next((candidate) => costs[candidate]);
    if (name) share.served(name, costs[name] ?? 0);
    order.push(String(name));
  }
  expect(order).toEqual(["high", "high", "high", "default"]);
});

test("without waiting items there is no next class", () => {
  expect(new ClassShare().next(() => undefined)).toBeUndefined();
});

test("the unused share of a class is divided among the others", () => {
  expect(serve(new ClassShare(), 200, ["default", "low"])).toEqual({ high: 0, default: 150, low: 50 });
});

test("a class that was idle has saved nothing up", () => {
  const share = new ClassShare();
  serve(share, 10_000, ["high"]);
  share.wake("low");
  expect(serve(share, 100, ["high", "low"]).low).toBeLessThanOrEqual(8);
});

test("an undone item is not charged", () => {
  const share = new ClassShare();
  for (let index = 0; index < 100; index += 1) {
    const undo = [share.served("high", 1_000), share.served("low", 10), share.served("high", 7)];
    for (const each of undo.toReversed()) each();
  }
  share.wake("low");
  const names: readonly PriorityClass[] = ["high", "default", "low"];
  expect(serve(share, 100, names)).toEqual(serve(new ClassShare(), 100, names));
});

test("an item that was served before an undone one stays charged", () => {
  const share = new ClassShare({ high: 1, default: 1, low: 1 });
  const undo = share.served("high", 3);
  share.served("high", 2);
  undo();
  // The class has used 2: an item of 1 is due at 3, as is another class's item of 3, which is less urgent.
  expect(share.next((name) => ({ high: 1.01, default: 3, low: undefined })[name])).toBe("default");
  expect(share.next((name) => ({ high: 1, default: 3, low: undefined })[name])).toBe("high");
});
