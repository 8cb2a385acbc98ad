import { readFileSync } from "node:fs";
import { join } from "node:path";
import { queryObjects } from "node:v8";
import { beforeEach, describe, expect, test } from "vitest";
import { LoopSlices } from "../../../../../../engine/backends/loop-slices.ts";
import type { Ask } from "../../../../../../engine/backends/openai-compatible/engines/engine-dialect.ts";
import { VLLM } from "../../../../../../engine/backends/openai-compatible/engines/vllm.ts";
import { SpelledMarks } from "../../../../../../engine/backends/openai-compatible/marks/spelled-marks.ts";
import { OwnPrompts } from "../../../../../../engine/backends/openai-compatible/prompt/own-prompts.ts";
import { RenderingCheck } from "../../../../../../engine/backends/openai-compatible/prompt/rendering-check.ts";
import { ANY_ORDER } from "../../../../../../engine/conversation/history/model-history.ts";
import { EngineError } from "../../../../../../engine/errors.ts";
import { loadProfile, type ModelProfile } from "../../../../../../engine/profiles/profile.ts";
import {
  CountTokensRequest,
  ReasoningEffort,
  ReasoningMode,
} from "../../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, Role } from "../../../../../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, call, reasoning, result, text, tool, user } from "../../../../../support/engine/canonical.ts";
import { workHere } from "../../../../../support/engine/work-here.ts";
import { generateRequest } from "../../../../../support/requests/generate-request.ts";
import { VirtualClock } from "../../../../../support/virtual-clock.ts";

const TEMPLATE = readFileSync(join(import.meta.dirname, "../../../../../../engine/demo-model/template.jinja"), "utf8");
const CHATML = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"];
const never = new AbortController().signal;
const order = { tenant: "t", signal: never };
const PROFILE = loadProfile("hermes-thinking");
const NO_ASK = Object.assign(() => Promise.reject(new Error("no page is asked for")), {
  tokens: () => Promise.reject(new Error("no page is asked for")),
}) as Ask;

/** The texts of the engine's calls so far; it has one token a character, but for control tokens. */
let calls: string[] = [];
let tokenize: (text: string) => readonly number[];
/** The engine's own rendering of the last prompt, for the check. */
let rendered: (tokens: Uint32Array) => Uint32Array;

/** The control tokens of the engine's model. */
let control: readonly string[];

function plainly(said: string): readonly number[] {
  const marks = new RegExp(`(${control.map((mark) => mark.replaceAll("|", "\\|")).join("|")})`);
  return said
    .split(marks)
    .flatMap((part, at) =>
      at % 2 === 1 ? control.indexOf(part) : Array.from(part, (one) => 1_000 + (one.codePointAt(0) ?? 0)),
    );
}

beforeEach(() => {
  calls = [];
  control = CHATML;
  tokenize = plainly;
  rendered = (tokens) => tokens;
});

type Made = { readonly profile?: ModelProfile; readonly marks?: readonly string[]; readonly megabytes?: number };

function prompts({ profile = PROFILE, marks = CHATML, megabytes = 16 }: Made = {}) {
  control = marks;
  const dialect = {
    ...VLLM,
    tokenize: async (_ask: Ask, _model: string, said: string) => {
      calls.push(said);
      return Uint32Array.from(tokenize(said));
    },
    render: async () => ({ tokens: rendered(last), features: undefined }),
  };
  const settings = {
    ...{
      dialect,
      servedModel: "m",
      profile,
      turns: ANY_ORDER,
      marks: new SpelledMarks(marks),
      images: false,
    },
    ...{ priorities: false, sharedCache: true, defaults: {} },
  };
  const { reasoning, toolCall, text: around } = profile;
  const own = new OwnPrompts({
    files: {
      ...{ template: TEMPLATE, bosToken: "", eosToken: "<|im_end|>" },
      tokens: marks.map((spelling, id) => ({ id, text: spelling, cuts: true })),
    },
    ...{ settings, markers: { reasoning, toolCall, text: around }, work: workHere, slices: new LoopSlices() },
    ...{ clock: new VirtualClock(), cacheMegabytes: megabytes },
  });
  let last: Uint32Array = new Uint32Array();
  const unseen = own.render.bind(own);
  own.render = async (...asked) => {
    const prompt = await unseen(...asked);
    last = prompt?.tokens ?? last;
    return prompt;
  };
  const render = async (messages: readonly Message[], tenant = "t", fields: Partial<CountTokensRequest> = {}) => {
    calls = [];
    const request = { ...CountTokensRequest.create(), messages, ...fields };
    return own.render(request, "", NO_ASK, { ...order, tenant });
  };
  return { own, settings, render };
}

const textOf = (tokens: Uint32Array = new Uint32Array()) =>
  Array.from(tokens, (token) => control[token] ?? String.fromCodePoint(token - 1_000)).join("");
const turns = (count: number, units: number) =>
  Array.from({ length: count }, (_, at) => [
    user(`${at} ${"question ".repeat(units / 9)}`),
    assistant(text(`${at} ${"answer ".repeat(units / 7)}`)),
  ]).flat();

describe("a prompt", () => {
  test("a prompt is tokenized once, then only its new end", async () => {
    const { render } = prompts();
    const first = await render(turns(5, 900).slice(0, -1));
    expect(calls).toHaveLength(1);
    expect(first?.tokens).toEqual(Uint32Array.from(plainly(textOf(first?.tokens))));
    const second = await render([...turns(5, 900), user("And now?")]);
    expect(textOf(second?.tokens)).toContain("And now?<|im_end|>");
    expect(calls.join("").length).toBeLessThan(2_500);
    await render([...turns(5, 900), user("And now?")]);
    expect(calls).toEqual([]);
  });

  test("a prompt is tokenized in calls of a bounded size, over known segments where these are few", async () => {
    const { render } = prompts();
    await render(turns(40, 18_000).slice(0, -1));
    expect(calls.length).toBeGreaterThan(5);
    expect(calls.length).toBeLessThan(12);
    expect(Math.max(...calls.map(({ length }) => length))).toBeLessThanOrEqual(200_000);
    const [changed, ...others] = turns(40, 18_000).slice(0, -1);
    await render([user("other"), ...others.slice(0, 20), user("new"), ...others.slice(21)]);
    expect(calls).toHaveLength(2);
    expect(changed).toBeDefined();
  });

  test("a prompt is not known to another tenant", async () => {
    const { own, render } = prompts();
    const one = await render(turns(2, 900), "one");
    const found = own.tokensFound;
    const two = await render(turns(2, 900), "two");
    expect(two?.tokens).toEqual(one?.tokens);
    expect(calls).toHaveLength(1);
    expect(own.tokensFound).toBe(found);
    expect(own.tokensMade).toBe(2 * (one?.tokens.length ?? 0));
  });

  test("a prompt of four megabytes takes at most 25 calls, none of more than 256 KB", async () => {
    const { render } = prompts();
    const said = turns(250, 8_000);
    const prompt = await render(said);
    expect(prompt?.tokens.length).toBeGreaterThan(3_900_000);
    expect(calls.length).toBeLessThanOrEqual(25);
    expect(Math.max(...calls.map(({ length }) => length))).toBeLessThanOrEqual(256_000);
    expect(calls.join("").length).toBeLessThan(1.01 * (prompt?.tokens.length ?? 0) + 7 * said.length * CHATML.length);
  });

  test("a prompt leaves nothing in memory where the cache has no room", async () => {
    const { own, render } = prompts({ megabytes: 0 });
    await render([user("first")]);
    const held = () => queryObjects(Uint32Array, { format: "count" });
    const before = held();
    for (let at = 0; at < 20; at += 1) await render(turns(3, 900 + 9 * at));
    // The last prompt is the test's own.
    expect(held()).toBeLessThanOrEqual(before + 1);
    expect(own.tokensFound).toBe(0);
  });

  test("a prompt has a caller's control token cut apart, in two calls that do not touch", async () => {
    const { render } = prompts();
    const prompt = await render([user("say <|im_end|> twice")]);
    expect(calls.every((said) => !said.includes("say <|im_end|>"))).toBe(true);
    expect(textOf(prompt?.tokens)).toContain("say <|im_end|> twice");
    expect(Array.from(prompt?.tokens ?? []).filter((token) => token === 1)).toHaveLength(
      Array.from((await render([user("say nothing twice")]))?.tokens ?? []).filter((token) => token === 1).length,
    );
  });

  test("a prompt is left to the engine where its tokenizer joins over the end of a segment, or refuses the text", async () => {
    const { render } = prompts();
    tokenize = (said) => plainly(said).filter((token) => token !== 1);
    expect(await render(turns(2, 900))).toBeUndefined();
    tokenize = () => {
      throw new EngineError("CONTEXT_WINDOW_EXCEEDED", "too long");
    };
    expect(await render([user("other")])).toBeUndefined();
    tokenize = () => {
      throw new EngineError("ENGINE_DOWN", "gone");
    };
    await expect(render([user("third")])).rejects.toMatchObject({ reason: "ENGINE_DOWN" });
  });
});

/** The marks of DeepSeek and Kimi-K3 that are control tokens. */
const DEEPSEEK = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜System｜>"];
const THINKING = ["<think>", "</think>"];
const FAMILIES: readonly (readonly [name: string, marks: readonly string[]])[] = [
  ["hermes-thinking", CHATML],
  ...["deepseek-v3.2", "deepseek-v4", "deepseek-v4.1"].map((name) => [name, [...DEEPSEEK, ...THINKING]] as const),
  ["kimi-k3", ["<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"]],
];

test.each(FAMILIES)("a user who speaks behind a long run with reasoning adds under 1 KB: %s", async (name, marks) => {
  const { render } = prompts({ profile: loadProfile(name), marks });
  const run = Array.from({ length: 30 }, (_, at): readonly Message[] => [
    assistant(reasoning(`${at} ${"so it is ".repeat(25)}`), call("look", `{"at":${at}}`, `c${at}`)),
    { role: Role.TOOL, parts: [result(`${at} ${"report ".repeat(250)}`, "look", `c${at}`)] },
  ]).flat();
  const fields = {
    tools: [tool("look", "Looks.")],
    reasoning: { mode: ReasoningMode.ENABLED, effort: ReasoningEffort.UNSPECIFIED },
  };
  await render([user("Go on."), ...run], "t", fields);
  expect(calls.join("").length).toBeGreaterThan(60_000);
  const behind = [user("Go on."), ...run, assistant(text("Done.")), user("And now?")];
  const second = await render(behind, "t", fields);
  expect(textOf(second?.tokens)).toContain("And now?");
  expect(calls.join("").length).toBeLessThan(1_000);
});

describe("the check at the start", () => {
  test("the check at the start switches own rendering off where the engine's template has one space more", async () => {
    const { own, settings, render } = prompts();
    const trial = new RenderingCheck(own, settings, () => 1);
    expect(await trial.start(NO_ASK, never)).toBeUndefined();
    rendered = (tokens) => Uint32Array.from([...tokens, 1_032]);
    expect(await trial.start(NO_ASK, never)).toContain("the node differ from them");
    expect(own.isOn).toBe(false);
    expect(await render([user("one")])).toBeUndefined();
  });
});

describe("the check of answers", () => {
  const check = async (differs: boolean, random = 0) => {
    const { own, settings, render } = prompts();
    const checking = new RenderingCheck(own, settings, () => random);
    await render([user("one")]);
    rendered = (tokens) => (differs ? tokens.with(3, 7) : tokens);
    return {
      own,
      why: await checking.answered(generateRequest({ messages: [user("one")], tools: [] }), NO_ASK, never),
    };
  };

  test("the check of answers leaves own prompts on where they are equal", async () =>
    expect(await check(false)).toMatchObject({ own: { isOn: true }, why: undefined }));

  test("the check of answers switches the node's rendering off at a difference, and forgets what it knew", async () => {
    const { own, why } = await check(true);
    expect(why).toContain("token 3 of");
    expect(own.isOn).toBe(false);
    expect(await own.render(generateRequest({ messages: [user("one")] }), "", NO_ASK, order)).toBeUndefined();
  });

  test("the check of answers passes over a prompt whose exact text the engine's way does not keep", async () => {
    const { own, settings } = prompts();
    rendered = (tokens) => tokens.with(3, 7);
    const checking = new RenderingCheck(own, settings, () => 0);
    const request = generateRequest({ messages: [user("what is <|im_end|>?")], tools: [] });
    expect(await checking.answered(request, NO_ASK, never)).toBeUndefined();
    expect(own.isOn).toBe(true);
  });
});
