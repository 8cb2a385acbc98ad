import type { Token } from "node-llama-cpp";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import { type LlamaRuntime, loadRuntime } from "../../engine/backends/llama/runtime/llama-runtime.ts";
import { KEPT_COPIES, type Slot, Slots } from "../../engine/backends/llama/slots/slots.ts";
import { Steps } from "../../engine/backends/llama/slots/steps.ts";
import { HeldPrefixes } from "../../engine/prefixes/held-prefixes.ts";
import type { SlotLine } from "../../engine/prefixes/slot-prefixes.ts";
import type { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Message } from "../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, system, text, user } from "../support/engine/canonical.ts";
import {
  ask,
  digested,
  missing,
  never,
  OPTIONS,
  RANDOM_MODEL,
  RECURRENT_MODEL,
  request,
  startBackend,
} from "../support/engine/demo-engine.ts";
import { digestOf } from "../support/requests/prefix-digests.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

/** Forty tokens determined by `start`, followed by others. */
const prompt = (start: number, ...ids: number[]) => [...Array.from({ length: 40 }, () => start), ...ids] as Token[];
const LONG_MS = 60_000;

describe.skipIf(missing !== "")("slots", () => {
  let runtime: LlamaRuntime;
  let clock: VirtualClock;
  let freed = 0;
  let slots: Slots;

  beforeAll(async () => {
    runtime = await loadRuntime({ ...OPTIONS, modelPath: RANDOM_MODEL, slots: 2 }, never());
  });
  afterAll(() => runtime.close());
  afterEach(async () => {
    slots.close();
    for (const sequence of runtime.sequences) await sequence.clearHistory();
  });

  const fresh = () => {
    clock = new VirtualClock();
    freed = 0;
    const held = new HeldPrefixes(() => ({ used: 0, total: 0 }));
    const { sequences } = runtime;
    slots = new Slots({
      sequences,
      steps: new Steps(),
      held,
      clock,
      onFree: () => (freed += 1),
    });
  };
  const take = (ids: readonly Token[], isolation = "a", affinityKey = ""): Slot => {
    const slot = slots.take({ prompt: ids, isolation, affinityKey });
    if (!slot) throw new Error("no slot is free");
    return slot;
  };
  /** Takes a slot, evaluates the prompt in it and releases it; returns the cached tokens. */
  const use = async (ids: readonly Token[], isolation = "a", keepMs = LONG_MS, affinityKey = "") => {
    await clock.advance(1);
    const slot = take(ids, isolation, affinityKey);
    const cached = await slot.adapt({ prompt: ids, isolation });
    await runtime.decoder.read(slot.sequence, ids.slice(cached));
    slots.release(slot, keepMs);
    return { slot, cached };
  };

  describe("a common prefix is not worth another conversation's cache", () => {
    const cases: readonly [name: string, next: readonly Token[], affinityKey: string, same: boolean][] = [
      ["when it is shorter than 32 tokens", prompt(1).slice(0, 31), "", false],
      ["unless it is half of the prompt", [...prompt(1), ...prompt(2)].slice(0, 80), "", true],
      ["when it is less than half of the prompt", [...prompt(1), ...prompt(2), ...prompt(3)], "", false],
      ["unless it is the conversation that the caller names", [...prompt(1), ...prompt(2), ...prompt(3)], "key", true],
      ["which it is not when little is common", [...prompt(1).slice(0, 20), ...prompt(2)], "key", false],
    ];
    test.each(cases)("%s", async (_name, next, affinityKey, same) => {
      fresh();
      const first = await use(prompt(1, 2, 3), "a", LONG_MS, "key");
      expect((await use(next, "a", LONG_MS, affinityKey)).slot === first.slot).toBe(same);
    });
  });

  describe("of conversations that share nearly as much of a prompt", () => {
    /** Two conversations that begin alike; the first was used last. Resolves to their slots. */
    const both = async (first: readonly Token[], second: readonly Token[], line?: SlotLine) => {
      fresh();
      const busy = take(first);
      await busy.adapt({ prompt: first, isolation: "a", line });
      await runtime.decoder.read(busy.sequence, [...first]);
      const { slot } = await use(second);
      await clock.advance(1);
      slots.release(busy, LONG_MS);
      return [busy, slot];
    };

    test("the least recently used is taken, despite a few more common tokens of another", async () => {
      const [, second] = await both(prompt(1, 2, 3, 4), prompt(1, 9));
      expect((await use(prompt(1, 2, 3, 5))).slot).toBe(second);
    });

    test("the one that the prompt continues is taken", async () => {
      const [first] = await both(prompt(1, 2), prompt(1, 9));
      expect((await use(prompt(1, 2, 3, 5))).slot).toBe(first);
    });

    test("the one whose prompt it continues is taken, although it omits the answer", async () => {
      const line = {
        model: "m",
        places: [
          { digest: "head", tokens: 40 },
          { digest: "asked", tokens: 42 },
        ],
      };
      const [first] = await both(prompt(1, 2, 3, 60, 61, 62), prompt(1, 9), line);
      expect((await use(prompt(1, 2, 3, 70, 71))).slot).toBe(first);
    });

    test("one with much more in common is taken", async () => {
      const long = [...prompt(1), ...prompt(2)];
      const [first] = await both([...long, 7 as Token], prompt(1, 9));
      expect((await use([...long, 8 as Token])).slot).toBe(first);
    });
  });

  test("without a good prefix the least recently used cache is evicted, and its idle time recorded", async () => {
    fresh();
    const first = await use(prompt(1, 2, 3, 4));
    const second = await use(prompt(5, 6, 7, 8));
    expect(slots.retentionMs).toBeUndefined();
    await clock.advance(998);
    const third = await use(prompt(10, 11, 12));
    expect([first.slot, second.slot]).not.toContain(third.slot);
    expect(slots.retentionMs).toBe(1000);
    await expect.poll(() => first.slot.free).toBe(true);
    expect([first.slot.empty, first.slot.sequence.nextTokenIndex]).toEqual([true, 0]);
    expect((await use(prompt(5, 6, 7, 8))).cached).toBe(42);
    expect((await use(prompt(10, 11, 12))).cached).toBe(41);
    expect(slots.tokensInUse).toBe(0);
  });

  describe("an empty slot is kept ready", () => {
    test("for successive new requests, while as many caches stay as there are request slots", async () => {
      fresh();
      for (let start = 1; start <= 6; start += 1) {
        await clock.advance(1);
        const slot = take(prompt(start));
        expect(slot.sequence.nextTokenIndex).toBe(0);
        await runtime.decoder.read(slot.sequence, prompt(start));
        slots.release(slot, LONG_MS);
        await expect
          .poll(() => runtime.sequences.filter((each) => each.nextTokenIndex === 0).length)
          .toBeGreaterThan(0);
        const held = runtime.sequences.filter(({ nextTokenIndex }) => nextTokenIndex > 0);
        expect(held).toHaveLength(Math.min(start, slots.count));
      }
    });

    test("and a continued conversation evicts no other cache", async () => {
      fresh();
      await use(prompt(1, 2, 3));
      await use(prompt(5, 6, 7));
      for (let turn = 0; turn < 3; turn += 1) {
        expect((await use(prompt(1, 2, 3))).cached).toBe(41);
        expect((await use(prompt(5, 6, 7))).cached).toBe(41);
      }
      expect(slots.retentionMs).toBeUndefined();
    });

    test("and an earlier request takes the next evicted cache, which is cleared for no other", async () => {
      fresh();
      const first = await use(prompt(1, 2, 3));
      const second = await use(prompt(5, 6, 7));
      await clock.advance(1);
      const newcomer = take(prompt(10));
      const another = take(prompt(11));
      expect([first.slot, second.slot]).not.toContain(newcomer);
      expect(another).toBe(second.slot);
      expect(await another.adapt({ prompt: prompt(11), isolation: "a" })).toBe(0);
      await expect.poll(() => first.slot.free).toBe(true);
      expect(slots.take({ prompt: prompt(12), isolation: "a", affinityKey: "" })).toBeUndefined();
      slots.release(newcomer, LONG_MS);
      expect(take(prompt(12))).toBe(first.slot);
    });
  });

  test("a cache is cleared when its lifetime ends, which each use restarts, and not before", async () => {
    fresh();
    const { slot } = await use(prompt(1, 2, 3, 4), "a", 1000);
    await clock.advance(500);
    expect((await use(prompt(1, 2, 3, 4), "a", 1000)).slot).toBe(slot);
    await clock.advance(999);
    expect([slot.empty, slot.sequence.nextTokenIndex]).toEqual([false, 43]);
    freed = 0;
    await clock.advance(1);
    await expect.poll(() => freed).toBe(1);
    expect([slot.empty, slot.busy, slot.sequence.nextTokenIndex]).toEqual([true, false, 0]);
  });
});

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
    for (const messages of [first, second]) await ask(backend, digested(messages, [], { cache: cacheOf("reported") }));
    const held = (count: number) => backend.prefixes.get(digestOf(second, count).toString("latin1"))?.tokens;
    const places = [1, 2, 3, 4].map(held);
    expect([places[0], places[2]]).toEqual([undefined, held(2)]);
    const branch = [...first, assistant(text("Nothing.")), user("Well?")];
    expect((await ask(backend, digested(branch, [], { cache: cacheOf("reported") }))).cached).toBe(places[1]);
  });
});
