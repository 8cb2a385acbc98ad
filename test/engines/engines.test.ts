import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { backendConformance } from "../support/engine/backend-conformance.ts";
import { answersBeside, crashBeside } from "./answers.ts";
import { ENGINES } from "./engines.ts";
import { marksBeside } from "./marks.ts";
import { Rig } from "./rig.ts";
import { takenOver } from "./takeover.ts";
import { toolsBeside } from "./tools.ts";

// `test/engines/run` has said which are not installed.
const installed = ENGINES.filter((lane) => lane.installed);

test("at least one engine was installed", () => {
  expect(installed).not.toEqual([]);
});

describe.each(installed)("a real $dialect", (lane) => {
  const rig = new Rig(lane);
  beforeAll(() => rig.startEngine(), 420_000);
  afterAll(() => rig.stopEngine());

  backendConformance(`a node beside ${lane.dialect}`, {
    model: "demo",
    column: lane.column,
    prompt: "Count from 1 to 12.",
    endlessPrompt: "Count from 1 to 75",
    start: async () => {
      const backend = await rig.backend(2, "demo");
      return { backend, stop: () => backend.close() };
    },
  });

  takenOver(rig);

  describe("with a node beside it", () => {
    beforeAll(() => rig.startNode(), 120_000);
    afterAll(() => rig.stopNode());
    answersBeside(rig);
    toolsBeside(rig);
    marksBeside(rig);
    crashBeside(rig);
  });
});
