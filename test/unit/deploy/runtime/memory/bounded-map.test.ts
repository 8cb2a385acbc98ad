import { expect, test } from "vitest";
import { BoundedMap } from "../../../../../deploy/runtime/memory/bounded-map.ts";

/** A map of at most three entries, and its keys from the newest one on. */
function three() {
  const map = new BoundedMap<string, number>(3);
  for (const [value, key] of ["a", "b", "c"].entries()) map.set(key, value);
  return { map, keys: () => [...map.newestFirst()].map(([key]) => key) };
}

test("of more entries than it holds, the one that was set longest ago goes", () => {
  const { map, keys } = three();
  map.set("a", 10);
  map.set("d", 3);
  expect(keys()).toEqual(["d", "a", "c"]);
  expect([map.get("a"), map.get("b"), map.size, map.oldest?.key]).toEqual([10, undefined, 3, "c"]);
});

test.each([
  { taken: "a", left: ["c", "b"], oldest: "b" },
  { taken: "b", left: ["c", "a"], oldest: "a" },
  { taken: "c", left: ["b", "a"], oldest: "a" },
])("what is taken out leaves the others in their row ($taken)", ({ taken, left, oldest }) => {
  const { map, keys } = three();
  expect([map.delete(taken), map.delete(taken)]).toEqual([true, false]);
  expect([keys(), map.oldest?.key, map.get(taken)]).toEqual([left, oldest, undefined]);
  map.set(taken, 7);
  expect(keys()).toEqual([taken, ...left]);
});

test("the newest one that is set again stays where it is", () => {
  const { map, keys } = three();
  map.set("c", 5);
  expect([keys(), map.get("c")]).toEqual([["c", "b", "a"], 5]);
});

test("an entry may be taken out while the entries are gone through", () => {
  const { map } = three();
  const seen: string[] = [];
  for (const [key] of map.newestFirst()) {
    seen.push(key);
    map.delete(key);
  }
  expect([seen, map.size, map.oldest]).toEqual([["c", "b", "a"], 0, undefined]);
  map.set("d", 4);
  expect([...map.newestFirst()]).toEqual([["d", 4]]);
});

test("a map without a bound holds as many as are set", () => {
  const map = new BoundedMap<number, number>();
  for (let key = 0; key < 1_000; key += 1) map.set(key, key);
  expect([map.size, map.oldest?.key]).toEqual([1_000, 0]);
});
