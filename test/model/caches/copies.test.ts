import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../../engine/backends/llama/llama-backend.ts";
import { KEPT_COPIES } from "../../../engine/backends/llama/slots/slots.ts";
import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Message } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, system, text, user } from "../../support/engine/canonical.ts";
import { ask, missing, RECURRENT_MODEL, request, startBackend } from "../../support/engine/demo-engine.ts";
import { digested, digestOf } from "./digested.ts";

const RULES = system("You answer in short and plain sentences. ".repeat(20));
const QUESTIONS = ["Who are you?", "What can you do?", "Where is that?", "Why?", "How so?"];
const TOKENS = 20;
const ANSWER = assistant(text("I cannot say."));

const cacheOf = (isolationSalt: string) => ({ affinityKey: "", isolationSalt, ttl: undefined });

describe.skipIf(missing !== "")("a cache that cannot be truncated", () => {
  let backend: LlamaBackend;
  let colds = 0;

  beforeAll(async () => {
    backend = await startBackend({ modelPath: RECURRENT_MODEL, slots: 8, batchTokens: 64 });
  });
  afterAll(() => backend.close());

  /** Answers a request with empty caches. */
  const cold = async (wanted: GenerateRequest) => {
    colds += 1;
    const { text: answer, cached } = await ask(backend, { ...wanted, cache: cacheOf(`cold ${colds}`) });
    expect(cached).toBe(0);
    return answer;
  };

  /** Runs a conversation under the salt. Returns the prompt tokens and cached tokens of each turn. */
  async function converse(isolationSalt: string, asked: typeof request) {
    const turns: { readonly tokens: number; readonly cached: number }[] = [];
    let messages: readonly Message[] = [RULES];
    for (const question of QUESTIONS) {
      messages = [...messages, user(`${isolationSalt}: ${question}`)];
      const wanted = asked(messages, { maxOutputTokens: TOKENS, cache: cacheOf(isolationSalt) });
      const expected = await cold(wanted);
      const answered = await ask(backend, wanted);
      expect(answered.text).toBe(expected);
      turns.push({ tokens: answered.finished.usage?.inputTokens ?? 0, cached: answered.cached });
      messages = [...messages, ANSWER];
    }
    return turns;
  }

  test("each turn continues from the last, with the answer of an empty cache", async () => {
    const turns = await converse("a", request);
    expect(turns[0]?.cached).toBe(0);
    // The last token of a prompt is always evaluated.
    for (const [at, { cached }] of turns.slice(1).entries()) expect(cached).toBe((turns[at]?.tokens ?? 0) - 1);
  });

  test("the same for concurrent conversations with the digests of a gateway", async () => {
    const asked = (messages: string | readonly Message[], more: Partial<GenerateRequest> = {}) =>
      digested(messages as readonly Message[], [], more);
    const conversations = await Promise.all(["b", "c"].map((salt) => converse(salt, asked)));
    // The opening of the assistant turn is three tokens after the last message.
    for (const turns of conversations)
      for (const [at, { cached }] of turns.slice(1).entries()) expect(cached).toBe((turns[at]?.tokens ?? 0) - 3);
  });

  test("a repeated or changed turn continues from its position while a copy is kept", async () => {
    const messages: Message[] = [RULES];
    const tokens: number[] = [];
    const cache = cacheOf("again");
    for (const question of QUESTIONS) {
      messages.push(user(question));
      const { finished } = await ask(backend, request(messages, { maxOutputTokens: 4, cache }));
      tokens.push(finished.usage?.inputTokens ?? 0);
      messages.push(ANSWER);
    }
    const otherwise = (turn: number) => [...messages.slice(0, 1 + 2 * turn), user("Something else.")];
    const back = async (turn: number) => {
      const wanted = request(otherwise(turn), { maxOutputTokens: TOKENS, cache });
      const expected = await cold(wanted);
      const answered = await ask(backend, wanted);
      expect(answered.text).toBe(expected);
      return answered.cached;
    };
    const last = QUESTIONS.length - 1;
    expect(await back(last)).toBe((tokens[last - 1] ?? 0) - 1);
    // The copy of that turn replaces the last one; the one before it is kept, too.
    expect(await back(last - 1)).toBe((tokens[last - 2] ?? 0) - 1);
    expect(await back(last - 1 - KEPT_COPIES)).toBe(0);
  });

  test("positions from which no prompt can continue are not reported", async () => {
    const first = [RULES, user("Tell me of it.")];
    const second = [...first, ANSWER, user("And then?")];
    for (const messages of [first, second]) await ask(backend, digested(messages, [], { cache: cacheOf("told") }));
    const held = (count: number) => backend.prefixes.get(digestOf(second, count).toString("latin1"))?.tokens;
    const places = [1, 2, 3, 4].map(held);
    expect([places[0], places[2]]).toEqual([undefined, held(2)]);
    const branch = [...first, assistant(text("Nothing.")), user("Well?")];
    expect((await ask(backend, digested(branch, [], { cache: cacheOf("told") }))).cached).toBe(places[1]);
  });
});
