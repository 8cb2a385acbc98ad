import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../../engine/backends/llama/llama-backend.ts";
import { type Message, Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, call, reasoning, result, system, text, tool, user } from "../../support/engine/canonical.ts";
import { ask, missing, request, startBackend } from "../../support/engine/demo-engine.ts";
import { digested, digestOf } from "./digested.ts";

const RULES = system("You are a terse assistant, and look things up. ".repeat(12));
const TOOLS = [tool("look", "Looks something up.", { type: "object", properties: { what: { type: "string" } } })];
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
    const ASKED = user("Please count from one to twelve for me, and tell me which of them is even.");
    const first = [RULES, ASKED];
    const reply = await ask(backend, digested(first));
    expect(heldOf(first, 1)?.tokens).toBeGreaterThan(100);
    expect(heldOf(first, 1)?.tailTokens).toBe(0);
    expect(heldOf(first, 2)?.tailTokens).toBeGreaterThan(4);

    const second = [...first, assistant(text(reply.text)), user("And thirteen?")];
    const told = expected(second);
    const answered = await ask(backend, digested(second));
    expect(answered.cached).toBe(told);

    // The same question, answered again, shares all but the model's text.
    const branch = [...first, assistant(text("Something else.")), user("And fourteen?")];
    const place = heldOf(branch, 2)?.tokens ?? 0;
    const branched = await ask(backend, digested(branch));
    expect(branched.cached).toBeGreaterThanOrEqual(place);
    expect(branched.cached - place).toBeLessThan(6);
    expect(heldOf(branch, 4)).toBeDefined();
  });

  test("every position is the end of a shorter prompt, with calls, results and reasoning before it", async () => {
    const messages = [
      RULES,
      user("Look up the weather."),
      assistant(reasoning("I should look."), text("Let me see."), call("look", '{"what":"weather"}', "c1")),
      { role: Role.TOOL, parts: [result("It rains.", "look", "c1")] },
      assistant(text("It rains.")),
      user("And tomorrow?"),
    ];
    await ask(backend, digested(messages, TOOLS));
    const places = messages.map((_, index) => heldOf(messages, index + 1)?.tokens ?? 0);
    for (const [index, place] of places.entries()) {
      const shorter = messages.slice(0, index + 1);
      const counted = await backend.countTokens(
        { ...request(shorter), tools: TOOLS, toolChoice: undefined },
        new AbortController().signal,
      );
      // The opening of the assistant turn is three tokens of a prompt that ends here.
      if (shorter.at(-1)?.role !== Role.ASSISTANT) expect(counted - place).toBe(3);
    }
    expect(places).toEqual(places.toSorted((a, b) => a - b));
  });

  test("a prefix is not held while another request uses it, and is held again afterwards", async () => {
    const messages = [RULES, user("Count from one to twenty, slowly, and then back again.")];
    await ask(backend, digested(messages));
    const before = heldOf(messages, 2);
    const running = backend.generate(digested(messages), new AbortController().signal);
    await running.next();
    expect(heldOf(messages, 2)).toBeUndefined();
    for await (const _ of running);
    expect(heldOf(messages, 2)).toMatchObject({ tokens: before?.tokens });
    expect(backend.prefixes.kv.used).toBeGreaterThan(before?.tokens ?? 0);
  });
});
