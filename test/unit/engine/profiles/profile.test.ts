import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { ConfigError } from "../../../../deploy/runtime/config/load-config.ts";
import { builtInProfiles, chooseProfile, loadProfile, usableMarkers } from "../../../../engine/profiles/profile.ts";

const choose = (template: string, architecture = "llama", name = "") =>
  chooseProfile({ architecture, name, template }).name;

describe("the profile of a model file", () => {
  const cases: readonly [template: string, profile: string][] = [
    ['<tool_call>\\n{"name": ', "hermes"],
    ["{% if enable_thinking %}<think>\\n{% endif %}<tool_call>", "hermes-thinking"],
    ["<tool_call> <think> {%- if enable_thinking is defined and enable_thinking is false %}", "qwen3"],
    [
      "<think></think> <tool_call>{name}\n<arg_key>{k}</arg_key>\n<arg_value>{v}</arg_value> enable_thinking",
      "glm-4.5",
    ],
    ["<think></think> <tool_call>{name}<arg_key>{k}</arg_key><arg_value>{v}</arg_value> enable_thinking", "glm-4.7"],
    ["<tool_call>\n<function=x>\n<parameter=y>", "qwen3-coder"],
    ["<tool_call>\n<function=x>\n<parameter=y> <think> enable_thinking is false", "qwen3.5"],
    ["'<minimax:tool_call>' <invoke name=\"x\"> <think>", "minimax-m2"],
    ["<|tool_calls_section_begin|>", "kimi-k2"],
    ["]<]minimax[>[<tool_call> <mm:think> </mm:think>", "minimax-m3"],
    ["<think></think> <|tool_calls_section_begin|>", "kimi-k2-thinking"],
    ["'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + '<｜tool▁sep｜>' + '```json'", "deepseek-v3"],
    ["'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + '<｜tool▁sep｜>' + '```json' <think>", "deepseek-r1"],
    ["'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + '<｜tool▁sep｜>' <think>", "deepseek-v3.1"],
    ["set dsml = '｜DSML｜' + 'function_calls'", "deepseek-v3.2"],
    ["set dsml = '｜DSML｜' '<' + dsml + 'tool_calls>' '<' + dsml + 'invoke name=\"'", "deepseek-v4"],
    ["set dsml = '｜DSML｜' '<' + dsml + ' calls>' '<' + dsml + ' invoke name=\"'", "deepseek-v4.1"],
    ["<|start_header_id|> Environment: ipython", "llama-3"],
    ["[TOOL_CALLS] [", "mistral"],
    ["[TOOL_CALLS] [ARGS]", "mistral-args"],
    ["[TOOL_CALLS] [ARGS] [THINK]", "magistral"],
    ["'<|start|>assistant to=' + 'functions.' + name + '<|channel|>commentary ' + 'json<|message|>'", "gpt-oss"],
    ["'<|tool_call>call:' + name + '{' + '}<tool_call|>' '<|channel>thought\\n' <channel|>", "gemma-4"],
    ["'<start_of_turn>model' + message.content + '<end_of_turn>'", "hermes-thinking"],
    ["<|im_start|>{{ message.content }}", "hermes-thinking"],
  ];
  test.each(cases)("the profile of a model file with %j is found by its template: %s", (template, profile) => {
    expect(choose(template)).toBe(profile);
  });

  test("the profile of a model file reports whether any profile fits", () => {
    const fits = (template: string) => chooseProfile({ architecture: "llama", name: "", template }).fits;
    expect([fits("<tool_call>"), fits("<start_of_turn>user"), fits("<|channel|>analysis")]).toEqual([
      true,
      false,
      false,
    ]);
  });

  test("the profile of a model file can be found by architecture and name", () => {
    const base = loadProfile("hermes");
    const named = (name: string, architectures: string[], names: string[]) => ({
      name,
      profile: { ...base, gguf: { architectures, names, template: ["<a>"] } },
    });
    const profiles = [named("any", [], []), named("arch", ["qwen3"], []), named("both", ["qwen3"], ["coder"])];
    const found = (architecture: string, name: string) =>
      chooseProfile({ architecture, name, template: "<a>" }, profiles).name;
    expect([found("llama", "X Coder"), found("qwen3", "X"), found("qwen3", "X Coder")]).toEqual([
      "any",
      "arch",
      "both",
    ]);
  });
});

describe("the markers that a model supports", () => {
  const TOKENS = ["<think>", "</think>", "｜DSML｜"];
  const withoutTokens = (mark: string) =>
    TOKENS.reduce((parts, token) => parts.flatMap((part) => part.split(token)), [mark]).filter((part) => part !== "");
  const usable = (profile: string, template: string) => usableMarkers(loadProfile(profile), template, withoutTokens);

  test("the markers that a model supports are those of the template and of the vocabulary", () => {
    const { reasoning, toolCall } = loadProfile("hermes-thinking");
    expect(usable("hermes-thinking", "<tool_call> </tool_call>")).toEqual({ reasoning, toolCall });
    expect(usable("hermes-thinking", "<tool_call>")).toEqual({ reasoning });
    const { text } = loadProfile("kimi-k3");
    expect(usable("kimi-k3", "<|open|>response<|sep|> <|close|>response<|sep|>")).toEqual({ text });
    expect(usable("kimi-k3", "<|open|>response<|sep|>")).toEqual({});
  });

  test("the markers that a model supports may be composed by the template", () => {
    const { toolCall } = loadProfile("deepseek-v3.2");
    const template = "'<' + dsml + 'function_calls>' '<' + dsml + 'invoke name=\"' 'parameter name=\"'";
    expect(usable("deepseek-v3.2", template).toolCall).toEqual(toolCall);
    expect(usable("deepseek-v3.2", "nothing of it").toolCall).toBeUndefined();
  });

  test("the markers of tools are supported without marks: if the template mentions tools", () => {
    expect(usable("llama-3", "{% for tool in tools %}").toolCall).toMatchObject({ form: "bare-json", prefix: "" });
    expect(usable("llama-3", "tools <|python_tag|>").toolCall).toMatchObject({ prefix: "<|python_tag|>" });
    expect(usable("llama-3", "no such thing").toolCall).toBeUndefined();
  });

  test("markers are supported in words that the template writes in another order", () => {
    const { toolCall } = loadProfile("gpt-oss");
    const template = "'<|start|>assistant to=' + name + '<|channel|>commentary ' + 'json<|message|>'";
    expect(usable("gpt-oss", template)).toEqual({ toolCall });
  });

  test.each(["glm-4.5", "kimi-k2", "mistral"])(
    "a model supports the calls of %s where its template writes the profile's marks",
    (profile) => {
      expect(usable(profile, "").toolCall).toBeUndefined();
      expect(usable(profile, JSON.stringify(loadProfile(profile)).replaceAll("\\n", " ")).toolCall).toBeDefined();
    },
  );
});

const NAMES = builtInProfiles().map(({ name }) => name);

const folder = mkdtempSync(join(tmpdir(), "profile-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.each(NAMES)("the profile %s is well formed", (name) => {
  const { thinking, reasoning, toolCall } = loadProfile(name);
  if (thinking) expect(reasoning).toBeDefined();
  if (thinking?.default === "always") expect(thinking.off).toBeUndefined();
  else if (thinking) expect(thinking.off).not.toEqual(thinking.on);
  expect(toolCall).toBeDefined();
});

test("a custom file is read by its path", () => {
  const file = join(folder, "own.yaml");
  writeFileSync(file, 'family: Own\ntoolCall: { form: json-list, open: "[CALLS]" }\n');
  expect(loadProfile(file)).toMatchObject({ family: "Own", callIds: "any", toolCall: { close: "" } });
});

test.each([
  ["an unknown key", "family: Own\ncolour: red\n", /colour/],
  ["an unknown form", 'family: Own\ntoolCall: { form: runes, open: "x" }\n', /toolCall/],
  ["a word for a switch", "family: Own\nthinking: { default: perhaps }\n", /thinking.default/],
  ["broken YAML", "family: [", /broken.yaml/],
])("%s stops the start", (_what, source, message) => {
  const file = join(folder, "broken.yaml");
  writeFileSync(file, source);
  expect(() => loadProfile(file)).toThrow(ConfigError);
  expect(() => loadProfile(file)).toThrow(message);
});

test.each(["nope", "", "..", "/nope/none.yaml"])("there is no profile %j", (name) => {
  expect(() => loadProfile(name)).toThrow(ConfigError);
});
