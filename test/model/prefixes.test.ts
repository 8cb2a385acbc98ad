import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import { keepMs, upToBreakpoint } from "../../engine/conversation/cache-breakpoints.ts";
import type { Duration } from "../../proto/gen/google/protobuf/duration.ts";
import { type Message, type Part, Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, part, system, text, tool, user } from "../support/engine/canonical.ts";
import { ask, digested, missing, never, request, sharedBackend, startBackend } from "../support/engine/demo-engine.ts";
import { digestOf } from "../support/requests/prefix-digests.ts";

const RULES = system("You are a terse assistant, and look things up. ".repeat(12));
describe.skipIf(missing !== "")("the cache of llama.cpp, by the digests of requests", () => {
  let backend: LlamaBackend;
  beforeAll(async () => {
    backend = await startBackend({ slots: 2, contextTokens: 4096 });
  });
  afterAll(() => backend.close());

  const heldOf = (messages: readonly Message[], count: number) =>
    backend.prefixes.get(digestOf(messages, count).toString("latin1"));
  /** Returns the expected cached tokens of a prompt: those at its last known position, and after it. */
  const expected = (messages: readonly Message[]) => {
    for (let count = messages.length; count > 0; count -= 1) {
      const held = heldOf(messages, count);
      if (held) return held.tokens + held.tailTokens;
    }
    return 0;
  };

  test("a turn and its branches find the reported tokens", async () => {
    const ASKED = user("Who are you exactly?");
    const first = [RULES, ASKED];
    const reply = await ask(backend, digested(first));
    expect(heldOf(first, 1)?.tokens).toBeGreaterThan(100);
    expect(heldOf(first, 1)?.tailTokens).toBe(0);
    expect(heldOf(first, 2)?.tailTokens).toBeGreaterThan(4);

    const second = [...first, assistant(text(reply.text)), user("And thirteen?")];
    const reported = expected(second);
    const answered = await ask(backend, digested(second));
    expect(answered.cached).toBe(reported);

    // The same question, answered again, shares all but the model's text.
    const branch = [...first, assistant(text("Something else.")), user("And fourteen?")];
    const place = heldOf(branch, 2)?.tokens ?? 0;
    const branched = await ask(backend, digested(branch));
    expect(branched.cached).toBeGreaterThanOrEqual(place);
    expect(branched.cached - place).toBeLessThan(6);
    expect(heldOf(branch, 4)).toBeDefined();
  });

  test("a prompt that is read without an answer is held, and found by the next request", async () => {
    const messages = [RULES, user("Please name the months of the year in their order, from the first to the last.")];
    const read = await ask(backend, { ...digested(messages), maxOutputTokens: 0 });
    expect([read.text, heldOf(messages, 2)]).toEqual(["", expect.anything()]);
    const reported = expected(messages);
    expect(reported).toBeGreaterThan(100);
    expect((await ask(backend, digested(messages))).cached).toBeGreaterThanOrEqual(reported - 1);
  });

  test("a prefix stays held while a request uses it, which others may copy, and its prompt once it is read", async () => {
    const messages = [RULES, user("Count from one to twenty, slowly, and then back again.")];
    const { text: said } = await ask(backend, digested(messages));
    const before = heldOf(messages, 2);
    const next = [...messages, assistant(text(said)), user("And once more.")];
    const running = backend.generate(digested(next), new AbortController().signal);
    await running.next();
    expect(heldOf(messages, 2)).toMatchObject({ tokens: before?.tokens });
    await running.next();
    expect(heldOf(next, 4)?.tokens).toBeGreaterThan(before?.tokens ?? 0);
    for await (const _ of running);
    expect(heldOf(next, 4)?.tailTokens).toBeGreaterThan(0);
  });

  test("the node is as full as its slots", async () => {
    for (const content of ["One.", "Two.", "Three."]) await ask(backend, digested([RULES, user(content)]));
    expect(backend.prefixes.kv).toEqual({ used: 2 * 4096, total: 2 * 4096 });
  });
});

const seconds = (count: number): Duration => ({ seconds: count, nanos: 0 });
const marked = (part: Part, ttl?: Duration): Part => ({ ...part, cacheBreakpoint: { ttl } });
const says = (role: Role, ...parts: Part[]): Message => ({ role, parts });
const WEATHER = tool("get_weather", "Get the weather for a city");
const cache = (ttl: Duration | undefined) => ({ cache: { affinityKey: "", isolationSalt: "", ttl } });

describe("the cache lifetime is the longest requested one", () => {
  const content = [marked(text("23"), seconds(30))];
  const inResult = part({ $case: "toolResult", value: { callId: "1", name: "get", content, isError: false } });
  const cases: readonly [name: string, wanted: ReturnType<typeof request>, ms: number][] = [
    ["without a request: five minutes", request("Hi"), 300_000],
    ["by a mark without a time: five minutes", request([says(Role.USER, marked(text("Hi")))]), 300_000],
    ["by the request", request("Hi", cache(seconds(7))), 7000],
    ["by a mark", request([says(Role.USER, marked(text("Hi"), seconds(3600)))], cache(seconds(7))), 3_600_000],
    ["by a mark inside a result", request([says(Role.TOOL, inResult)], cache(seconds(7))), 30_000],
    ["by a tool's mark", request("Hi", { tools: [{ ...WEATHER, cacheBreakpoint: { ttl: seconds(9) } }] }), 9000],
    ["never more than a day", request("Hi", cache(seconds(1e9))), 86_400_000],
    ["nor less than zero", request("Hi", cache(seconds(-1))), 0],
  ];
  test.each(cases)("the lifetime of a cache is the longest requested one, %s", (_name, wanted, ms) => {
    expect(keepMs(wanted)).toBe(ms);
  });
});

describe("the conversation up to the last mark", () => {
  const upTo = (messages: readonly Message[], tools = [WEATHER]) =>
    upToBreakpoint({ messages, tools, reasoning: false })?.messages;

  test("the conversation up to the last mark ends with the marked part", () => {
    const [one, two] = [marked(text("one")), marked(text("two"))];
    expect(upTo([says(Role.USER, one, two, text("three")), user("four")])).toEqual([says(Role.USER, one, two)]);
  });

  test("the conversation up to the last mark is the system turn if only a tool has a mark, and undefined without marks", () => {
    const messages = [system("Be brief."), user("Hi")];
    expect(upTo(messages)).toBeUndefined();
    expect(upTo(messages, [{ ...WEATHER, cacheBreakpoint: { ttl: undefined } }])).toEqual([messages[0]]);
  });
});

describe.skipIf(missing !== "")("tokens written up to a mark", () => {
  let backend: LlamaBackend;
  beforeAll(async () => {
    backend = await sharedBackend();
  });

  const usage = async (messages: readonly Message[], more = {}) =>
    (await ask(backend, request(messages, { ...more, maxOutputTokens: 4 }))).finished.usage;

  test("written tokens are counted up to the last mark, less cached ones, and not without a mark", async () => {
    const rules = system("You count numbers. ".repeat(20));
    const first = says(Role.USER, marked(text("Count from 1 to 5.")));
    const prefix = [says(Role.SYSTEM, ...rules.parts.map((one) => marked(one))), user("Count from 1 to 5.")];
    const wholePrompt = await backend.countTokens(request([rules, first]), never());
    const systemOnly = await usage(prefix, { tenant: "a" });
    // The tokens of a system turn are those that it adds to a prompt.
    const withRules = await backend.countTokens(request([rules, user("")]), never());
    const tokens = withRules - (await backend.countTokens(request([user("")]), never()));
    expect(systemOnly).toMatchObject({ cachedInputTokens: 0, cacheWriteTokens: tokens });

    const written = await usage([rules, first], { tenant: "b" });
    expect(written?.cachedInputTokens).toBe(0);
    expect(written?.cacheWriteTokens).toBeGreaterThan(tokens);
    expect(written?.cacheWriteTokens).toBeLessThan(wholePrompt);
    const again = await usage([rules, first], { tenant: "b" });
    expect(again).toMatchObject({ cachedInputTokens: wholePrompt - 1, cacheWriteTokens: 0 });

    const next = [rules, first, assistant(text("1, 2, 3, 4, 5")), says(Role.USER, marked(text("Count from 1 to 9.")))];
    const turn = await usage(next, { tenant: "b" });
    const { inputTokens = 0, cachedInputTokens = 0, cacheWriteTokens = 0 } = turn ?? {};
    expect(cachedInputTokens).toBeGreaterThan(tokens);
    expect(cacheWriteTokens).toBeGreaterThan(0);
    expect(cachedInputTokens + cacheWriteTokens).toBeLessThan(inputTokens);
    expect((await usage([rules, user("Count from 1 to 5.")], { tenant: "c" }))?.cacheWriteTokens).toBe(0);
  });
});
