import { describe, expect, test } from "vitest";
import { ApiError } from "../../../../gateway/errors.ts";
import { errorBodyB } from "../../../../gateway/formats/error-envelope.ts";
import { hostedTool, oneOf } from "../../../../gateway/formats/field-error.ts";
import { cured, curedBody } from "../../../../gateway/http/connection/agent-cures.ts";
import { contextExceeded } from "../../../../gateway/upstream/call/grpc-error.ts";

const REFUSALS: Readonly<Record<string, ApiError>> = {
  model: new ApiError("unknown_model", "It does not exist.", { path: ["model"] }),
  hosted: hostedTool("The tool type 'web_search'", ["tools", 8, "type"]),
  effort: oneOf(["reasoning", "effort"], ["low", "high"]),
  window: contextExceeded(33_000, 32_768),
};

const AGENTS = {
  claude: { "user-agent": "claude-cli/2.1.332 (external, cli)" },
  codex: { "user-agent": "codex_exec/0.171.0" },
  qwen: { "user-agent": "QwenCode/0.24.4 (linux; x64)" },
  copilot: { "user-agent": "OpenAI/JS 5.20.1", "x-initiator": "agent" },
  mini: { "user-agent": "OpenAI/Python 3.57.0" },
  other: { "user-agent": "ai-sdk/openai-compatible/3.0.37" },
};

describe("the second sentence of a refusal names the setting", () => {
  test.each([
    ["claude", "hosted", 'Set "permissions": {"deny": ["WebSearch"]} in ~/.claude/settings.json.'],
    ["claude", "effort", "Set CLAUDE_CODE_EFFORT_LEVEL."],
    ["codex", "model", "Set model in ~/.codex/config.toml."],
    ["codex", "hosted", 'Set web_search = "disabled" in ~/.codex/config.toml.'],
    ["qwen", "window", "Set model.generationConfig.contextWindowSize in ~/.qwen/settings.json."],
    ["mini", "model", "Choose one of them (invalid_request_error, model_not_found)."],
    [
      "other",
      "hosted",
      "Leave it out; an operator can do so for responses, by formats.responses.unsupportedTools: skip.",
    ],
  ] as const)("the second sentence of a refusal names the setting of %s for %s", (agent, refusal, cure) => {
    const error = REFUSALS[refusal] as ApiError;
    const { wording, options } = cured(error, AGENTS[agent]);
    const before = typeof error.wording === "string" ? { a: error.wording, b: error.wording } : error.wording;
    expect(wording).toEqual({ a: `${before.a} ${cure}`, b: expect.stringMatching(/[.!?] \S/) });
    expect(Object(wording).b.endsWith(` ${cure}`)).toBe(true);
    expect(options).toEqual(error.options);
  });

  test("the second sentence of a refusal names the setting of Copilot for a full window in other words, which it does not answer by a longer prompt", () => {
    const { wording } = cured(REFUSALS.window as ApiError, AGENTS.copilot);
    const text = "The prompt has 33000 tokens, the model 32768. Set COPILOT_PROVIDER_MAX_PROMPT_TOKENS.";
    expect(wording).toEqual({ a: text, b: text });
  });

  test.each(["model", "window", "effort"])("no setting is named where nothing names the agent: %s", (refusal) => {
    const error = REFUSALS[refusal] as ApiError;
    expect(cured(error, AGENTS.other)).toBe(error);
  });

  test.each(["codex", "claude", "other"] as const)(
    "the second sentence of a refusal changes no other error of %s",
    (agent) => {
      const error = oneOf(["tool_choice"], ["auto"]);
      expect(cured(error, AGENTS[agent])).toBe(error);
    },
  );
});

test.each([
  ["claude", "model", "policy_blocked"],
  ["claude", "hosted", "policy_blocked"],
  ["claude", "effort", "policy_blocked"],
  ["claude", "window", "invalid_request_error"],
  ["other", "hosted", "invalid_request_error"],
] as const)("%s gets a refusal for %s in messages with the type %s", (agent, refusal, type) => {
  const error = cured(REFUSALS[refusal] as ApiError, AGENTS[agent]);
  const body = errorBodyB(error, "req_1");
  expect(curedBody(error, "b", "req_1", AGENTS[agent])).toEqual({ ...body, error: { ...body.error, type } });
});
