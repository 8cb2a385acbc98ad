import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { LoopTurns } from "../../../../../../engine/backends/loop-turns.ts";
import type { Ask } from "../../../../../../engine/backends/openai-compatible/engines/engine-dialect.ts";
import { VLLM } from "../../../../../../engine/backends/openai-compatible/engines/vllm.ts";
import { SpelledMarks } from "../../../../../../engine/backends/openai-compatible/marks/spelled-marks.ts";
import { OwnPrompts } from "../../../../../../engine/backends/openai-compatible/prompt/own-prompts.ts";
import { RenderingCheck } from "../../../../../../engine/backends/openai-compatible/prompt/rendering-check.ts";
import { ANY_ORDER } from "../../../../../../engine/conversation/turn-rules.ts";
import { EngineError } from "../../../../../../engine/errors.ts";
import { loadProfile } from "../../../../../../engine/profiles/profile.ts";
import { CountTokensRequest } from "../../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Message } from "../../../../../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, text, user } from "../../../../../support/engine/canonical.ts";
import { workHere } from "../../../../../support/engine/work-here.ts";
import { generateRequest } from "../../../../../support/requests/generate-request.ts";
import { VirtualClock } from "../../../../../support/virtual-clock.ts";

const TEMPLATE = readFileSync(join(import.meta.dirname, "../../../../../../engine/demo-model/template.jinja"), "utf8");
const CONTROL = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"];
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

function plainly(said: string): readonly number[] {
  return said
    .split(/(<\|im_start\|>|<\|im_end\|>|<\/?think>|<\/?tool_call>)/)
    .flatMap((part, at) =>
      at % 2 === 1 ? CONTROL.indexOf(part) : Array.from(part, (one) => 1_000 + (one.codePointAt(0) ?? 0)),
    );
}

beforeEach(() => {
  calls = [];
  tokenize = plainly;
  rendered = (tokens) => tokens;
});

function prompts(clock = new VirtualClock()) {
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
      profile: PROFILE,
      turns: ANY_ORDER,
      marks: new SpelledMarks(CONTROL),
      images: false,
    },
    ...{ priorities: false, sharedCache: true, defaults: {} },
  };
  const { reasoning, toolCall, text: around } = PROFILE;
  const own = new OwnPrompts({
    files: {
      ...{ template: TEMPLATE, bosToken: "", eosToken: "<|im_end|>" },
      tokens: CONTROL.map((spelling, id) => ({ id, text: spelling, cuts: true })),
    },
    ...{ settings, markers: { reasoning, toolCall, text: around }, work: workHere, turns: new LoopTurns(), clock },
    cacheMegabytes: 16,
  });
  let last: Uint32Array = new Uint32Array();
  const render = async (messages: readonly Message[], tenant = "t") => {
    calls = [];
    const request = { ...CountTokensRequest.create(), messages };
    const prompt = await own.render(request, "", NO_ASK, { ...order, tenant });
    last = prompt?.tokens ?? last;
    return prompt;
  };
  return { own, settings, render };
}

const textOf = (tokens: Uint32Array = new Uint32Array()) =>
  Array.from(tokens, (token) => CONTROL[token] ?? String.fromCodePoint(token - 1_000)).join("");
const turns = (count: number, units: number) =>
  Array.from({ length: count }, (_, at) => [
    user(`${at} ${"question ".repeat(units / 9)}`),
    assistant(text(`${at} ${"answer ".repeat(units / 7)}`)),
  ]).flat();

describe("a prompt", () => {
  test("is tokenized once, then only its new end", async () => {
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

  test("is tokenized in calls of a bounded size, over known segments where these are few", async () => {
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

  test("is not known to another tenant", async () => {
    const { render } = prompts();
    const one = await render(turns(2, 900), "one");
    const two = await render(turns(2, 900), "two");
    expect(two?.tokens).toEqual(one?.tokens);
    expect(calls).toHaveLength(1);
  });

  test("has a caller's control token cut apart, in two calls that do not touch", async () => {
    const { render } = prompts();
    const prompt = await render([user("say <|im_end|> twice")]);
    expect(calls.every((said) => !said.includes("say <|im_end|>"))).toBe(true);
    expect(textOf(prompt?.tokens)).toContain("say <|im_end|> twice");
    expect(Array.from(prompt?.tokens ?? []).filter((token) => token === 1)).toHaveLength(
      Array.from((await render([user("say nothing twice")]))?.tokens ?? []).filter((token) => token === 1).length,
    );
  });

  test("is left to the engine where its tokenizer joins over the end of a segment, or refuses the text", async () => {
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

  test("leaves equal prompts on", async () =>
    expect(await check(false)).toMatchObject({ own: { isOn: true }, why: undefined }));

  test("switches the node's rendering off at a difference, and forgets what it knew", async () => {
    const { own, why } = await check(true);
    expect(why).toContain("token 3 of");
    expect(own.isOn).toBe(false);
    expect(await own.render(generateRequest({ messages: [user("one")] }), "", NO_ASK, order)).toBeUndefined();
  });

  test("passes over a prompt whose exact text the engine's way does not keep", async () => {
    const { own, settings } = prompts();
    rendered = (tokens) => tokens.with(3, 7);
    const checking = new RenderingCheck(own, settings, () => 0);
    const request = generateRequest({ messages: [user("what is <|im_end|>?")], tools: [] });
    expect(await checking.answered(request, NO_ASK, never)).toBeUndefined();
    expect(own.isOn).toBe(true);
  });
});
