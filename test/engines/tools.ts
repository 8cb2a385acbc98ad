import { describe, expect, test } from "vitest";
import { FinishReason, type GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Tool, type ToolChoice, ToolChoiceMode } from "../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, call, text, toolResult, user } from "../support/engine/canonical.ts";
import { toolOf } from "../support/requests/generate-request.ts";
import type { Rig } from "./rig.ts";

const string = { type: "string" };
const RUN = toolOf("run_command", { type: "object", properties: { command: string }, required: ["command"] });
/** A tool that the model has never seen, whose arguments it would not guess. */
const PICK: Tool = {
  ...toolOf("pick_letter", {
    type: "object",
    properties: { letter: { enum: ["q", "x"] }, count: { enum: [7, 8] } },
    required: ["letter", "count"],
    additionalProperties: false,
  }),
  strict: true,
};

/** Tools of two fields that are not strict, as agents have them, and prompts that ask for them. */
const LOOSE = [
  toolOf("get_weather", { type: "object", properties: { city: string, days: { type: "integer" } } }),
  toolOf("add_reminder", { type: "object", properties: { text: string, minutes: { type: "integer" } } }),
];
const WISHES = ["Weather in Paris for 2 days?", "Remind me to call Ann in 20 minutes.", "Will it rain in Rome?"];
const BEGUN = 200;
const AT_ONCE = 16;
const HOT = { temperature: 1, stop: [], logitBias: {} };

const ASK = "Run npm test";
const choice = (mode: ToolChoiceMode, name = ""): ToolChoice => ({
  mode,
  name,
  disableParallelCalls: true,
  allowedNames: [],
});

export function toolsBeside(rig: Rig): void {
  const called = async (fields: Partial<GenerateRequest>, prompt = ASK) => {
    const { blocks, finished } = await rig.ask({ messages: [user(prompt)], ...fields });
    expect(finished?.reason).toBe(FinishReason.TOOL_CALLS);
    expect(blocks.map(({ kind, complete }) => ({ kind, complete }))).toEqual([{ kind: "toolCall", complete: true }]);
    return { name: blocks[0]?.name, arguments: JSON.parse(blocks[0]?.text ?? "") };
  };

  describe("tools", () => {
    test("are called by a model that may", async () => {
      const toolChoice = choice(ToolChoiceMode.AUTO);
      expect(await called({ tools: [RUN], toolChoice })).toEqual({
        name: "run_command",
        arguments: { command: "npm test" },
      });
    });

    test("are left alone by a model that may not", async () => {
      const toolChoice = choice(ToolChoiceMode.NONE);
      const { blocks } = await rig.ask({ messages: [user(ASK)], tools: [RUN], toolChoice });
      expect(blocks.filter(({ kind }) => kind === "toolCall")).toEqual([]);
    });

    test("that are not strict are called whole, two hundred times at temperature 1", async () => {
      let begun = 0;
      for (let asked = 0; begun < BEGUN; asked += AT_ONCE) {
        expect(asked).toBeLessThan(10 * BEGUN);
        const prompts = Array.from({ length: AT_ONCE }, (_, at) => WISHES[(asked + at) % WISHES.length] ?? ASK);
        const answers = await Promise.all(
          prompts.map((prompt) => rig.ask({ messages: [user(prompt)], tools: LOOSE, sampling: HOT })),
        );
        for (const { blocks, finished } of answers) {
          const isCut = finished?.reason === FinishReason.MAX_OUTPUT_TOKENS;
          for (const [at, { kind, name, complete, text }] of blocks.entries()) {
            if (kind !== "toolCall" || (isCut && at === blocks.length - 1)) continue;
            begun += 1;
            expect(LOOSE.map((tool) => tool.name)).toContain(name);
            expect({ complete, value: JSON.parse(text) }).toEqual({ complete: true, value: expect.any(Object) });
          }
        }
      }
    });

    test("that may not be called leave no mark of a call in the answer, at temperature 1", async () => {
      const toolChoice = choice(ToolChoiceMode.NONE);
      const asked = Array.from({ length: AT_ONCE }, (_, at) => WISHES[at % WISHES.length] ?? ASK);
      const fields = { tools: LOOSE, toolChoice, sampling: HOT };
      const answers = await Promise.all(asked.map((prompt) => rig.ask({ ...fields, messages: [user(prompt)] })));
      for (const { blocks } of answers) expect(blocks.map((block) => block.text).join("")).not.toContain("<tool_call>");
    });

    test("are called by name and held to their schema where they are strict", async () => {
      const toolChoice = choice(ToolChoiceMode.NAMED, "pick_letter");
      const { name, arguments: given } = await called({ tools: [RUN, PICK], toolChoice });
      expect(name).toBe("pick_letter");
      expect(Object.keys(given).sort()).toEqual(["count", "letter"]);
      expect(["q", "x"]).toContain(given.letter);
      expect([7, 8]).toContain(given.count);
    });

    test("give results that the model goes on from, as the engine counts them", async () => {
      const messages = [user(ASK), assistant(call("run_command", '{"command":"npm test"}')), toolResult("3 passed")];
      const { started, blocks } = await rig.ask({ messages, tools: [RUN] });
      expect(blocks.map(({ kind }) => kind)).toContain("text");
      expect(started?.inputTokens).toBe(await rig.count({ messages, tools: [RUN] }));
      const shorter = [user(ASK), assistant(text("I will.")), user("Well?")];
      expect(await rig.count({ messages: shorter, tools: [RUN] })).not.toBe(started?.inputTokens);
    });
  });
}
