import { expect, test } from "vitest";
import { EngineSlots } from "../../../../../../engine/backends/openai-compatible/request/engine-slots.ts";

/** The marks of a conversation by the letters of its boundaries. */
const marks = (letters: string) =>
  Array.from(letters, (_, at) => ({ digest: letters.slice(0, at + 1), messages: at + 1 }));

function slots(count: number) {
  let nowMs = 0;
  const engine = new EngineSlots(count, () => ++nowMs);
  return {
    take: (letters: string) => engine.take(marks(letters)),
    /** Runs a request to its end; returns its slot. */
    ask(letters: string) {
      const held = engine.take(marks(letters));
      held?.release();
      return held?.place;
    },
  };
}

test("a conversation keeps its slot, and a new one with the same beginning gets an empty one", () => {
  const { ask } = slots(3);
  expect([ask("ha"), ask("hb"), ask("hc")]).toEqual([0, 1, 2]);
  expect([ask("hbxy"), ask("haxy"), ask("hcxy"), ask("haxyz")]).toEqual([1, 0, 2, 0]);
});

test("the least recently used one goes where none is empty", () => {
  const { ask } = slots(2);
  expect([ask("ha"), ask("hb"), ask("haxy"), ask("hc"), ask("haxyz"), ask("hbxy")]).toEqual([0, 1, 0, 1, 0, 1]);
});

test("a busy slot is not given, and the engine chooses where all are busy or nothing is known", () => {
  const { take } = slots(2);
  const [one, two] = [take("ha"), take("haxy")];
  expect([one?.place, two?.place]).toEqual([0, 1]);
  expect(take("hb")).toBeUndefined();
  expect(take("")).toBeUndefined();
  one?.release();
  one?.release();
  expect(take("hb")?.place).toBe(0);
  expect(take("hc")).toBeUndefined();
});
