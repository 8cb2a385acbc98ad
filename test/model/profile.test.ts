import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { ConfigError } from "../../deploy/runtime/config/load-config.ts";
import { ReasoningEffort, ReasoningMode } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { ToolChoice, ToolChoiceMode } from "../../proto/gen/svc/inference/v1/messages.ts";
import { Capability } from "../../proto/gen/svc/inference/v1/node_service.ts";
import { tool } from "../support/engine/canonical.ts";
import { ask, DEMO_MODEL, missing, request, startBackend } from "../support/engine/demo-engine.ts";

const folder = mkdtempSync(join(tmpdir(), "llama-profile-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const WEATHER = tool("get_weather", "Get the weather for a city");
const QUESTION = request("What is the weather in Ljubljana?", { tools: [WEATHER] });

async function capabilitiesWith(profile: string | undefined): Promise<readonly Capability[]> {
  const backend = await startBackend({ profile });
  try {
    return backend.describe().models[0]?.capabilities ?? [];
  } finally {
    await backend.close();
  }
}

describe.skipIf(missing !== "")("the profile of the demonstration model", () => {
  test("is found by its template", async () => {
    const capabilities = await capabilitiesWith(undefined);
    expect(capabilities).toEqual(await capabilitiesWith("hermes-thinking"));
    expect(capabilities).toEqual(
      expect.arrayContaining([Capability.TOOLS, Capability.REASONING, Capability.REASONING_OFF]),
    );
  });

  test("can be named, without the marks that the model does not have", async () => {
    const backend = await startBackend({ profile: "kimi-k2-thinking" });
    try {
      expect(backend.describe().models[0]?.capabilities).not.toContain(Capability.TOOLS);
      const { calls, text } = await ask(backend, QUESTION);
      expect(calls).toEqual([]);
      expect(text).toContain('<tool_call>\n{"name": "get_weather"');
      const toolChoice = ToolChoice.fromPartial({ mode: ToolChoiceMode.REQUIRED });
      await expect(ask(backend, { ...QUESTION, toolChoice })).rejects.toMatchObject({ reason: "UNSUPPORTED_FEATURE" });
    } finally {
      await backend.close();
    }
  });

  test("can be a file, whose marks are then searched", async () => {
    const profile = join(folder, "own.yaml");
    const calls = '{ form: json, open: "<tool_call>", close: "</tool_call>", afterOpen: "\\n", beforeClose: "\\n" }';
    writeFileSync(profile, `family: Own\nthinking: { default: always }\ntoolCall: ${calls}\n`);
    const backend = await startBackend({ profile });
    try {
      expect((await ask(backend, QUESTION)).calls).toEqual([
        { name: "get_weather", arguments: '{"city": "Ljubljana"}' },
      ]);
      const thinking = { mode: ReasoningMode.ENABLED, effort: ReasoningEffort.UNSPECIFIED };
      const reply = await ask(backend, request("Who are you exactly?", { reasoning: thinking }));
      expect([reply.reasoning, reply.text.includes("</think>")]).toEqual(["", true]);
    } finally {
      await backend.close();
    }
  });

  test("is reported at the start, with the lost features, if no template fits", async () => {
    const modelPath = join(folder, "foreign.gguf");
    const file = readFileSync(DEMO_MODEL, "latin1");
    writeFileSync(modelPath, file.replaceAll("<tool_call>", "<made_call>"), "latin1");
    const foreign = await startBackend({ modelPath });
    try {
      expect(foreign.startNotes()).toEqual([
        `no profile fits the chat template of the model's file, which is taken for one of "Hermes, ChatML, with reasoning": tool calls come out as text; backend.profile may name one`,
      ]);
      expect(foreign.describe().models[0]?.capabilities).not.toContain(Capability.TOOLS);
    } finally {
      await foreign.close();
    }
    const known = await startBackend();
    expect(known.startNotes()).toEqual([]);
    await known.close();
  });

  test("that does not exist stops the start", async () => {
    await expect(startBackend({ profile: "no-such-family" })).rejects.toThrow(ConfigError);
  });
});
