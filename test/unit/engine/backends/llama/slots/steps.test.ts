import { expect, test } from "vitest";
import { Steps } from "../../../../../../engine/backends/llama/slots/steps.ts";
import { type Gate, gate } from "../../../../../support/gate.ts";

const turns = async (count = 3) => {
  for (let turn = 0; turn < count; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};

test("a round waits for changes pending at its start, and for none that comes later", async () => {
  const steps = new Steps();
  const seen: string[] = [];
  const gates = { first: gate(), second: gate() };
  const note = (what: string) => async () => void seen.push(what);
  const change = (name: "first" | "second") =>
    steps.change(() => {
      seen.push(`${name} begins`);
      return gates[name].passed.then(note(name));
    });
  const first = change("first");
  const step = steps.run(0, note("step"));
  await turns();
  const second = change("second");
  await turns();
  expect(seen).toEqual(["first begins"]);
  gates.first.open();
  await Promise.all([first, step]);
  expect(seen.slice(1, 3)).toEqual(["first", "step"]);
  gates.second.open();
  await second;
  expect(seen.slice(3)).toEqual(["second begins", "second"]);
});

test("a failed change does not fail a step, and both are counted", async () => {
  const steps = new Steps();
  const change = steps.change(() => Promise.reject(new Error("lost")));
  const step = steps.run(0, () => Promise.resolve("made"));
  expect(steps.inFlight).toBe(2);
  await expect(change).rejects.toThrow("lost");
  expect(await step).toBe("made");
  expect({ done: steps.done, inFlight: steps.inFlight }).toEqual({ done: 2, inFlight: 0 });
});

/** Steps that record their start, and end when the test releases them. */
function heldSteps() {
  const steps = new Steps();
  const begun: string[] = [];
  const held = new Map<string, Gate>();
  /** Requests a step at the place that its name begins with. */
  const ask = (name: string) => {
    const end = gate();
    held.set(name, end);
    return steps.run(Number(name[0]), () => {
      begun.push(name);
      return end.passed;
    });
  };
  return { steps, begun, ask, end: (name: string) => held.get(name)?.open() };
}

test("a change during a round waits for its end, and the next round waits for the change", async () => {
  const { steps, begun, ask, end } = heldSteps();
  const first = ask("0a");
  await turns();
  const change = steps.change(async () => void begun.push("change"));
  const next = ask("1b");
  await turns();
  expect({ begun, inFlight: steps.inFlight }).toEqual({ begun: ["0a"], inFlight: 3 });
  end("0a");
  await Promise.all([first, change]);
  await turns();
  expect(begun).toEqual(["0a", "change", "1b"]);
  end("1b");
  await next;
});

test("steps start together, ordered by place, once all steps of the previous round have ended", async () => {
  const { begun, ask, end } = heldSteps();
  const first = ["2a", "0a", "1a"].map((name) => ask(name));
  await turns();
  expect(begun).toEqual(["0a", "1a", "2a"]);
  end("1a");
  await first[2];
  const second = ["1b", "3b"].map((name) => ask(name));
  end("2a");
  await first[0];
  second.push(ask("2b"));
  await turns();
  expect(begun).toHaveLength(3);
  end("0a");
  await first[1];
  second.push(ask("0b"));
  await turns();
  expect(begun.slice(3)).toEqual(["0b", "1b", "2b", "3b"]);
  for (const name of ["0b", "1b", "2b", "3b"]) end(name);
  await Promise.all(second);
});

test("a sequence without further steps is not waited for, and a failed step ends like any other", async () => {
  const { steps, begun, ask, end } = heldSteps();
  const failed = steps.run(1, () => Promise.reject(new Error("lost")));
  const made = ask("0a");
  await expect(failed).rejects.toThrow("lost");
  end("0a");
  await made;
  const next = ask("2b");
  await turns();
  expect(begun).toEqual(["0a", "2b"]);
  end("2b");
  await next;
  expect({ done: steps.done, inFlight: steps.inFlight }).toEqual({ done: 3, inFlight: 0 });
});

test("the next round is reported under way only once it has started", async () => {
  const { steps, begun, ask, end } = heldSteps();
  const first = ask("0a");
  await turns();
  const seen: string[] = [];
  void steps.underWay.then(() => seen.push(begun.join()));
  const other = ask("1b");
  await turns();
  expect(seen).toEqual([]);
  end("0a");
  await first;
  await turns(4);
  expect(seen).toEqual(["0a,1b"]);
  end("1b");
  await other;
});
