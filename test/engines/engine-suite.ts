import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { DialectName } from "../../engine/backends/openai-compatible/engines/engine-dialect.ts";
import { readModelFiles } from "../../engine/backends/openai-compatible/prompt/model-files.ts";
import { backendConformance } from "../support/engine/backend-conformance.ts";
import { answersBeside, crashBeside } from "./answers.ts";
import { ENGINES, TOKENIZER_FILE } from "./engines.ts";
import { marksBeside } from "./marks.ts";
import { ownPromptsBeside } from "./own-prompts.ts";
import { Rig } from "./rig.ts";
import { sessionsBeside } from "./sessions.ts";
import { takenOver } from "./takeover.ts";
import { toolsBeside } from "./tools.ts";

/**
 * Starts an engine and registers the tests beside it; `more` registers those of one engine only. Rejects if the engine
 * does not come up: a file without tests fails, where tests behind a failed hook would be skipped.
 */
export async function testsBeside(dialect: DialectName, more: (rig: Rig) => void = () => {}): Promise<void> {
  const lane = ENGINES.find((one) => one.dialect === dialect);
  // `test/engines/run` has said which are not installed.
  if (!lane?.installed) return test.skip(`${dialect} is not installed`, () => {});
  const rig = new Rig(lane);
  await rig.startEngine();
  afterAll(() => rig.stopEngine());

  describe(`a real ${dialect}`, () => {
    backendConformance(`a node beside ${dialect}`, {
      model: "demo",
      column: lane.column,
      prompt: "Count from 1 to 12.",
      endlessPrompt: "Count from 1 to 75",
      start: async () => {
        const backend = await rig.backend(2, "demo", readModelFiles(TOKENIZER_FILE));
        expect(backend.load().ownRendering).toBe(dialect !== "sglang");
        return { backend, stop: () => backend.close() };
      },
    });

    // SGLang 0.5.23 adds a field to each tool, so that prompts and revisions differ (test/engines/sglang.test.ts).
    if (dialect !== "sglang") takenOver(rig);
    if (dialect !== "sglang") ownPromptsBeside(rig);

    describe("with a node beside it", () => {
      beforeAll(() => rig.startNode(), 120_000);
      afterAll(() => rig.stopNode());
      answersBeside(rig);
      toolsBeside(rig);
      marksBeside(rig);
      sessionsBeside(rig);
      more(rig);
      crashBeside(rig);
    });
  });
}
