import { expect, test } from "vitest";
import { Steps } from "../../../../../../engine/backends/llama/slots/steps.ts";
import { gate } from "../../../../../support/gate.ts";

const turns = () => new Promise((resolve) => setImmediate(resolve));

test("a step waits for the changes that wait when it begins, and for none that comes later", async () => {
  const steps = new Steps();
  const seen: string[] = [];
  const gates = { first: gate(), second: gate() };
  const note = (what: string) => async () => void seen.push(what);
  const change = (name: "first" | "second") => steps.change(() => gates[name].passed.then(note(name)));
  const first = change("first");
  const step = steps.run(note("step"));
  const second = change("second");
  await turns();
  expect(seen).toEqual([]);
  gates.first.open();
  await Promise.all([first, step]);
  expect(seen).toEqual(["first", "step"]);
  gates.second.open();
  await second;
  expect(seen).toEqual(["first", "step", "second"]);
});

test("a change that fails is no step's failure, and both count", async () => {
  const steps = new Steps();
  const change = steps.change(() => Promise.reject(new Error("lost")));
  const step = steps.run(() => Promise.resolve("made"));
  expect(steps.inFlight).toBe(2);
  await expect(change).rejects.toThrow("lost");
  expect(await step).toBe("made");
  expect({ done: steps.done, inFlight: steps.inFlight }).toEqual({ done: 2, inFlight: 0 });
});
