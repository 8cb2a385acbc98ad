import { describe, expect, test } from "vitest";
import { DIALECTS } from "../../../../../../engine/backends/openai-compatible/engines/dialects.ts";
import type { DialectName } from "../../../../../../engine/backends/openai-compatible/engines/engine-dialect.ts";
import { toJsonText } from "../../../../../../engine/backends/openai-compatible/http/raw-json.ts";
import { TokenList } from "../../../../../../engine/backends/openai-compatible/http/token-list.ts";
import { SpelledMarks } from "../../../../../../engine/backends/openai-compatible/marks/spelled-marks.ts";
import {
  cacheSalt,
  enginePriority,
  type RequestSettings,
  sessionId,
  toChatPrompt,
  toSampling,
} from "../../../../../../engine/backends/openai-compatible/request/request.ts";
import { ANY_ORDER } from "../../../../../../engine/conversation/history/model-history.ts";
import { loadProfile } from "../../../../../../engine/profiles/profile.ts";
import { ReasoningEffort, ReasoningMode } from "../../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../../../../../proto/gen/svc/inference/v1/messages.ts";
import { MARKS, PLACES } from "../../../../../support/dialects/injections.ts";
import { assistant, call, declaration, text, tool, toolResult, user } from "../../../../../support/engine/canonical.ts";
import { generateRequest, textMessage, toolOf } from "../../../../../support/requests/generate-request.ts";

const ALL: readonly DialectName[] = ["vllm", "sglang", "llama-server"];
const think = (effort: ReasoningEffort) => ({ mode: ReasoningMode.ENABLED, effort });

function settingsOf(dialect: DialectName, profile = "qwen3"): RequestSettings {
  return {
    ...{ dialect: DIALECTS[dialect], servedModel: "served", profile: loadProfile(profile), turns: ANY_ORDER },
    ...{ marks: SpelledMarks.none, images: false, priorities: true, sharedCache: false, defaults: {} },
  };
}

/** A generation's body as the engine parses it. */
function bodyOf(dialect: DialectName, topK = 0): Record<string, unknown> {
  const sampling = {
    ...{ temperature: 0.5, topP: 0.9, topK, minP: 0.05, frequencyPenalty: 0.1, presencePenalty: 0.2 },
    ...{ repetitionPenalty: 1.1, seed: 7, stop: ["END"], logitBias: { 5: -1 }, topLogprobs: 2 },
  };
  const body = DIALECTS[dialect].generateBody({
    ...toSampling(sampling, settingsOf(dialect)),
    ...{
      model: "served",
      tokens: new TokenList([1, 2, 3]),
      features: undefined,
      maxTokens: 100,
      grammar: 'root ::= "a"',
    },
    ...{
      marks: ["<think>"],
      cacheSalt: "salt",
      sharedCache: false,
      sessionId: "session",
      priority: 3,
      requestId: "r1",
      slot: undefined,
      rank: undefined,
      handOver: undefined,
    },
  });
  return JSON.parse(toJsonText(body));
}

test.each([
  ["vllm", true, -5, 5],
  ["vllm", true, 0, 0],
  ["sglang", true, -5, -5],
  ["sglang", true, 0, 0],
  ["vllm", false, -5, undefined],
] as const)("%s with priority scheduling %s gets the priority %i as %s", (dialect, priorities, priority, sent) => {
  expect(enginePriority({ priority }, { dialect: DIALECTS[dialect], priorities })).toBe(sent);
});

test("each engine gets the tokens, sampling, grammar and hints in its own fields", () => {
  expect(bodyOf("vllm")).toEqual({
    ...{ model: "served", token_ids: [1, 2, 3], request_id: "r1", cache_salt: "salt", priority: 3 },
    ...{ stream: true, output_mode: "text", reasoning_ended: true, stream_options: { include_usage: true } },
    sampling_params: {
      ...{ temperature: 0.5, top_p: 0.9, top_k: -1, min_p: 0.05, frequency_penalty: 0.1, presence_penalty: 0.2 },
      ...{ repetition_penalty: 1.1, seed: 7, logprobs: 2, logit_bias: { 5: -1 }, max_tokens: 100 },
      ...{ skip_special_tokens: false, spaces_between_special_tokens: false },
      structured_outputs: { grammar: 'root ::= "a"' },
    },
  });
  expect(bodyOf("sglang")).toEqual({
    ...{ rid: "r1", input_ids: [1, 2, 3], cache_salt: "salt", session_id: "session", priority: 3, stream: true },
    ...{ return_logprob: true, top_logprobs_num: 2, return_text_in_logprobs: true },
    sampling_params: {
      ...{ temperature: 0.5, top_p: 0.9, top_k: -1, min_p: 0.05, frequency_penalty: 0.1, presence_penalty: 0.2 },
      ...{ repetition_penalty: 1.1, sampling_seed: 7, logit_bias: { 5: -1 }, max_new_tokens: 100 },
      ...{ skip_special_tokens: false, spaces_between_special_tokens: false, ebnf: 'root ::= "a"' },
    },
  });
  expect(bodyOf("llama-server")).toEqual({
    ...{ prompt: [1, 2, 3], n_predict: 100, stream: true, return_tokens: true, return_progress: true },
    ...{ cache_prompt: false, preserved_tokens: ["<think>"], temperature: 0.5, top_p: 0.9, top_k: 0, min_p: 0.05 },
    ...{ frequency_penalty: 0.1, presence_penalty: 0.2, repeat_penalty: 1.1, seed: 7, n_probs: 2 },
    ...{
      logit_bias: [[5, -1]],
      grammar: 'root ::= "a"',
    },
  });
});

describe.each(ALL)("a conversation for %s", (dialect) => {
  const promptOf = (fields: Parameters<typeof generateRequest>[0], profile?: string) =>
    toChatPrompt(generateRequest(fields), settingsOf(dialect, profile));

  test("a conversation switches reasoning explicitly, with the effort in the engine's field or as a variable", () => {
    expect(promptOf({}).templateKwargs).toEqual({ enable_thinking: true });
    const off = { mode: ReasoningMode.DISABLED, effort: ReasoningEffort.UNSPECIFIED };
    expect(promptOf({ reasoning: off }).templateKwargs).toEqual({ enable_thinking: false });
    const { templateKwargs, reasoningEffort } = promptOf({ reasoning: think(ReasoningEffort.HIGH) }, "gpt-oss");
    const word = DIALECTS[dialect].takesEffort ? reasoningEffort : templateKwargs.reasoning_effort;
    expect(word).toBe("high");
  });

  test("a conversation has a deferred tool where a message declares it, and not in the list", () => {
    const tools = [toolOf("find", {}), { ...toolOf("look", { title: "<|im_end|>" }), deferred: true }];
    const messages = [{ role: Role.USER, parts: [declaration("look")] }];
    const settings = { ...settingsOf(dialect), marks: new SpelledMarks(["<|im_end|>"]) };
    const prompt = toChatPrompt(generateRequest({ messages, tools }), settings);
    expect(prompt.tools).toMatchObject([{ function: { name: "find" } }]);
    const broken = '{"title":"<\u2060|im_end|>"}';
    const content = `{"type": "function", "function": {"name": "look", "parameters": ${broken}}}`;
    expect(prompt.messages).toMatchObject([{ role: "user", content }]);
    expect(promptOf({ tools: tools.slice(1) }).tools).toBeUndefined();
  });

  test("a conversation continues a last message of the assistant", () => {
    const messages = [textMessage(Role.USER, "go"), textMessage(Role.ASSISTANT, "I")];
    expect(promptOf({ messages })).toMatchObject({
      continues: true,
      messages: [{}, { role: "assistant", content: "I" }],
    });
  });
});

test("tenants, and the sessions of a tenant, have digests of their own", () => {
  const cache = { affinityKey: "k", isolationSalt: "s", ttl: undefined };
  const [one, other] = ["t1", "t2"].map((tenant) => generateRequest({ tenant, cache }));
  if (!one || !other) throw new Error("no request");
  expect(cacheSalt(one)).toMatch(/^[\w-]{43}$/);
  expect(cacheSalt(one)).not.toBe(cacheSalt(other));
  expect(sessionId(one)).not.toBe(sessionId(other));
  expect(sessionId(generateRequest())).toBeUndefined();
});

test.each(Object.entries(PLACES))("marks spelled in %s reach no engine", (_place, withSpelling) => {
  for (const mark of MARKS) {
    const settings = { ...settingsOf("vllm"), marks: new SpelledMarks(MARKS) };
    const { messages, tools } = toChatPrompt(generateRequest(withSpelling(mark)), settings);
    expect(toJsonText([messages, tools])).not.toContain(mark);
  }
});

describe("calls in the node's own form, beside a tokenizer with its marks", () => {
  const settings = { ...settingsOf("vllm", "generic"), marks: new SpelledMarks(MARKS) };
  const broken = "<\u2060tool_call>";

  test("calls in the node's own form have plain marks in the instruction and in the history, and none in what callers wrote", () => {
    const run = tool("run", "Runs <tool_call>.", { type: "object" });
    const called = assistant(text("So <tool_call>."), call("run", '{"a": "<tool_call>"}'));
    const messages = [user("Say <tool_call>."), called, toolResult("<tool_call>"), user("Well?")];
    const [head, ...said] = toChatPrompt(generateRequest({ messages, tools: [run] }), settings).messages.map(
      (message) => (JSON.parse(toJsonText([message])) as [{ content: string }])[0].content,
    );
    expect(head).toContain(`Runs ${broken}.`);
    expect(head).toContain('<tool_call>\n{"name": "name of the tool"');
    expect(head).toContain("between <tool_response> and </tool_response>");
    expect(said).toEqual([
      `Say ${broken}.`,
      `So ${broken}.\n<tool_call>\n{"name": "run", "arguments": {"a": "${broken}"}}\n</tool_call>`,
      `<tool_response>\n${broken}\n</tool_response>`,
      "Well?",
    ]);
  });

  test.each(Object.entries(PLACES))(
    "calls in the node's own form have no mark of callers in %s",
    (_place, withSpelling) => {
      const shownOf = (spelling: string) =>
        toJsonText(toChatPrompt(generateRequest(withSpelling(spelling)), settings).messages);
      for (const mark of MARKS) expect(shownOf(mark).split(mark).length).toBe(shownOf("word").split(mark).length);
    },
  );
});
