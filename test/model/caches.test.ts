import type { Token } from "node-llama-cpp";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Sample, Sampler } from "../../engine/backends/llama/generation/sampling.ts";
import type { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import { type LlamaRuntime, loadRuntime } from "../../engine/backends/llama/runtime/llama-runtime.ts";
import {
  type CopyCache,
  KEPT_COPIES,
  type Returns,
  type Slot,
  Slots,
} from "../../engine/backends/llama/slots/slots.ts";
import { Steps } from "../../engine/backends/llama/slots/steps.ts";
import { HeldPrefixes } from "../../engine/prefixes/held-prefixes.ts";
import type { SlotLine } from "../../engine/prefixes/slot-prefixes.ts";
import type { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Message } from "../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, system, text, user } from "../support/engine/canonical.ts";
import {
  ask,
  askUntilWords,
  DEMO_MODEL,
  digested,
  missing,
  never,
  OPTIONS,
  RANDOM_MODEL,
  RECURRENT_MODEL,
  request,
  startBackend,
} from "../support/engine/demo-engine.ts";
import { noPretrained, PRETRAINED_MODEL } from "../support/engine/pretrained.ts";
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
  let held: HeldPrefixes;

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
    held = new HeldPrefixes(() => ({ used: 0, total: 0 }));
    const { sequences, decoder } = runtime;
    slots = new Slots({
      sequences,
      copy: (to, from) => decoder.copy(to, from),
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
  type Use = { readonly isolation?: string; readonly keepMs?: number; readonly affinityKey?: string; line?: SlotLine };
  /** Takes a slot for the prompt and reads it there. Resolves to the slot, busy, and the cached tokens. */
  const read = async (ids: readonly Token[], { isolation = "a", affinityKey = "", line }: Use = {}) => {
    const slot = take(ids, isolation, affinityKey);
    const cached = await slots.adapt(slot, { prompt: ids, isolation, affinityKey, line });
    await runtime.decoder.read(slot.sequence, ids.slice(cached));
    return { slot, cached };
  };
  /** The same, and releases the slot. */
  const use = async (ids: readonly Token[], how: Use = {}) => {
    await clock.advance(1);
    const used = await read(ids, how);
    slots.release(used.slot, how.keepMs ?? LONG_MS);
    return used;
  };

  describe("of two caches that may go", () => {
    test.each<[name: string, first: Returns, second: Returns, minutes: number, gone: 0 | 1]>([
      ["the least recently used", "soon", "soon", 0, 0],
      ["the one behind whose answer a person writes", "soon", "later", 0, 1],
      ["one behind a call that is older by more than ten minutes", "soon", "later", 11, 0],
      ["one that nothing continues", "later", "never", 0, 1],
    ])("of two caches that may be evicted, %s goes first", async (_name, first, second, minutes, gone) => {
      fresh();
      const how = { keepMs: 60 * LONG_MS };
      const older = await use(prompt(1), how);
      older.slot.returns = first;
      await clock.advance(minutes * LONG_MS);
      const newer = await use(prompt(2), how);
      newer.slot.returns = second;
      const third = await use(prompt(3), how);
      expect(third.cached).toBe(0);
      expect((await read(prompt(gone === 0 ? 2 : 1, 9))).cached).toBe(40);
      expect((await read(prompt(gone === 0 ? 1 : 2, 9))).cached).toBe(0);
    });
  });

  test.each([
    ["one with a lease is dropped behind those without, however old it is", false],
    ["one whose lease has ended is dropped first", true],
  ])("%s", async (_name, ends) => {
    fresh();
    const how = { keepMs: 60 * LONG_MS };
    const leased = await use(prompt(1), { ...how, line: { model: "m", places: [{ digest: "end", tokens: 40 }] } });
    leased.slot.leased = true;
    await clock.advance(ends ? 0 : 20 * LONG_MS);
    const newer = await use(prompt(2), how);
    newer.slot.returns = ends ? "later" : "soon";
    slots.endLease(ends ? "end" : "of another");
    await use(prompt(3), how);
    expect((await read(prompt(ends ? 2 : 1, 9))).cached).toBe(40);
    expect((await read(prompt(ends ? 1 : 2, 9))).cached).toBe(0);
  });

  describe("a conversation keeps its slot", () => {
    const first = [...prompt(1), ...prompt(2), 3 as Token];
    const sibling = [...first.slice(0, 70), ...prompt(4)];
    const cases: readonly [name: string, next: readonly Token[], how: Use, same: boolean, cached: number][] = [
      ["for its next turn", [...first, ...prompt(4)], {}, true, 81],
      ["for its prompt once more", first, {}, true, 80],
      ["beside another with the same beginning, which is copied", sibling, {}, false, 70],
      ["beside another of the same session", sibling, { affinityKey: "key" }, false, 70],
      ["beside one with too little in common for a copy", [...first.slice(0, 7), ...prompt(4)], {}, false, 0],
      ["beside one with just enough", [...first.slice(0, 8), ...prompt(4)], {}, false, 8],
      ["beside one of another tenant", sibling, { isolation: "b" }, false, 0],
    ];
    test.each(cases)("a conversation keeps its slot %s", async (_name, next, how, same, cached) => {
      fresh();
      const before = await use(first, { affinityKey: "key" });
      const after = await use(next, how);
      expect([after.slot === before.slot, after.cached]).toEqual([same, cached]);
      expect((await use([...next, 7 as Token], how)).cached).toBe(next.length);
      if (!same) expect((await use([...first, 7 as Token])).cached).toBe(first.length);
    });

    test("a conversation keeps its slot although the next turn omits the answer, and another shares more", async () => {
      fresh();
      const places = [
        { digest: "head", tokens: 40 },
        { digest: "asked", tokens: 42 },
      ];
      const own = await use(prompt(1, 2, 3, 60, 61, 62), { line: { model: "m", places } });
      await use(prompt(1, 2, 9));
      expect((await use(prompt(1, 2, 3, 70, 71))).slot).toBe(own.slot);
    });
  });

  describe("a common beginning is copied", () => {
    const head = [...prompt(1), ...prompt(2)];

    test("while its owner goes on, from as far as that has read", async () => {
      fresh();
      const steps = { line: { model: "m", places: [{ digest: "head", tokens: 80 }] } };
      const owner = await read([...head, 3 as Token], steps);
      const copied = await read([...head, 4 as Token, 5 as Token]);
      expect(copied.cached).toBe(80);
      expect(copied.slot.sequence.contextTokens).toEqual([...head, 4, 5]);
      // Both went through the same batch.
      await Promise.all(
        [owner, copied].map(({ slot }, at) => runtime.decoder.read(slot.sequence, prompt(6 + at).slice(0, 9))),
      );
      for (const { slot } of [owner, copied]) slots.release(slot, LONG_MS);
      expect((await use([...head, 3, ...prompt(6).slice(0, 9), 8] as Token[])).cached).toBe(90);
      expect((await use([...head, 4, 5, ...prompt(7).slice(0, 9), 8] as Token[])).cached).toBe(91);
    });

    test("before a cache is evicted, which may be its owner's", async () => {
      fresh();
      const owner = await use(head);
      await use(prompt(5, 6, 7));
      expect((await use([...head.slice(0, 70), ...prompt(8)])).cached).toBe(70);
      await expect.poll(() => owner.slot.free && owner.slot.empty).toBe(true);
    });

    test("a common beginning is copied unless its owner is gone by then", async () => {
      fresh();
      const owner = await use(head);
      const demand = { prompt: [...head.slice(0, 70), ...prompt(8)], isolation: "a", affinityKey: "" };
      const slot = take(demand.prompt);
      await slots.discard(owner.slot);
      expect([slot === owner.slot, await slots.adapt(slot, demand)]).toEqual([false, 0]);
    });

    test("a common beginning is announced until the last cache with it goes", async () => {
      fresh();
      const line = (...tokens: readonly number[]) => ({
        model: "m",
        places: tokens.map((count, at) => ({ digest: at === 0 ? "head" : `end ${count}`, tokens: count })),
      });
      const owner = await use([...head, ...prompt(3)], { line: line(80, 110) });
      const other = await read([...head, ...prompt(4)], { line: line(80, 115) });
      expect([held.get("head")?.tokens, held.get("end 115")]).toEqual([80, undefined]);
      slots.announce(other.slot);
      expect(held.get("end 115")?.tokens).toBe(115);
      await slots.discard(owner.slot);
      expect([held.get("head")?.tokens, held.get("end 110")]).toEqual([80, undefined]);
      await slots.discard(other.slot);
      expect(held.size).toBe(0);
    });

    test("the common beginning of an edited conversation is copied, whose former cache is the first to go", async () => {
      fresh();
      const line = { model: "m", places: [40, 70, 81].map((tokens) => ({ digest: `${tokens}`, tokens })) };
      const before = await use([...head, 3 as Token], { affinityKey: "key", line });
      const other = await use(prompt(5, 6, 7));
      const after = await use([...head.slice(0, 75), ...prompt(8)], { affinityKey: "key" });
      expect([after.slot === before.slot, after.cached, slots.retentionMs]).toEqual([false, 75, undefined]);
      await expect.poll(() => before.slot.free && before.slot.empty).toBe(true);
      expect(other.slot.empty).toBe(false);
    });
  });

  test("a node is as full as its slots, however short their conversations are", async () => {
    fresh();
    expect(slots.inUse).toBe(0);
    await use(prompt(1));
    expect(slots.inUse).toBe(1);
    await use(prompt(2), { keepMs: 10 });
    await use(prompt(3), { keepMs: 10 });
    expect(slots.inUse).toBe(2);
    await clock.advance(20);
    expect(slots.inUse).toBe(0);
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
    test("an empty slot is kept ready for successive new requests, while as many caches stay as there are request slots", async () => {
      fresh();
      for (let start = 1; start <= 6; start += 1) {
        await clock.advance(1);
        const slot = take(prompt(start));
        expect(slot.sequence.nextTokenIndex).toBe(0);
        await slots.adapt(slot, { prompt: prompt(start), isolation: "a", affinityKey: "" });
        await runtime.decoder.read(slot.sequence, prompt(start));
        slots.release(slot, LONG_MS);
        await expect
          .poll(() => runtime.sequences.filter((each) => each.nextTokenIndex === 0).length)
          .toBeGreaterThan(0);
        const held = runtime.sequences.filter(({ nextTokenIndex }) => nextTokenIndex > 0);
        expect(held).toHaveLength(Math.min(start, slots.count));
      }
    });

    test("a continued conversation evicts no other cache", async () => {
      fresh();
      await use(prompt(1, 2, 3));
      await use(prompt(5, 6, 7));
      for (let turn = 0; turn < 3; turn += 1) {
        expect((await use(prompt(1, 2, 3))).cached).toBe(41);
        expect((await use(prompt(5, 6, 7))).cached).toBe(41);
      }
      expect(slots.retentionMs).toBeUndefined();
    });

    test("an earlier request takes the next evicted cache, which is cleared for no other", async () => {
      fresh();
      const first = await use(prompt(1, 2, 3));
      const second = await use(prompt(5, 6, 7));
      await clock.advance(1);
      const newcomer = take(prompt(10));
      await slots.adapt(newcomer, { prompt: prompt(10), isolation: "a", affinityKey: "" });
      const another = take(prompt(11));
      expect([first.slot, second.slot]).not.toContain(newcomer);
      expect(another).toBe(second.slot);
      expect(await slots.adapt(another, { prompt: prompt(11), isolation: "a", affinityKey: "" })).toBe(0);
      await expect.poll(() => first.slot.free).toBe(true);
      expect(slots.take({ prompt: prompt(12), isolation: "a", affinityKey: "" })).toBeUndefined();
      slots.release(newcomer, LONG_MS);
      expect(take(prompt(12))).toBe(first.slot);
    });
  });

  test("a cache is cleared when its lifetime ends, which each use restarts, and not before", async () => {
    fresh();
    const { slot } = await use(prompt(1, 2, 3, 4), { keepMs: 1000 });
    await clock.advance(500);
    expect((await use(prompt(1, 2, 3, 4), { keepMs: 1000 })).slot).toBe(slot);
    await clock.advance(999);
    expect([slot.empty, slot.sequence.nextTokenIndex]).toEqual([false, 43]);
    freed = 0;
    await clock.advance(1);
    await expect.poll(() => freed).toBe(1);
    expect([slot.empty, slot.busy, slot.sequence.nextTokenIndex]).toEqual([true, false, 0]);
  });
});

const MODELS: readonly (readonly [name: string, path: string, unless: string])[] = [
  ["demonstration", DEMO_MODEL, missing],
  ["pretrained", PRETRAINED_MODEL, noPretrained],
];
const STORY = "A gateway sends each turn of a conversation to the node that holds its beginning. ".repeat(20);

describe.each(MODELS)("with %s weights", (_name, modelPath, unless) => {
  test.skipIf(unless !== "")("an answer behind a copied beginning is the one behind it where it was read", async () => {
    const runtime = await loadRuntime({ ...OPTIONS, modelPath }, never());
    const { sequences, model, decoder } = runtime;
    const held = new HeldPrefixes(() => ({ used: 0, total: 0 }));
    const clock = new VirtualClock();
    const copy: CopyCache = (to, from) => decoder.copy(to, from);
    const slots = new Slots({ sequences, copy, steps: new Steps(), held, clock, onFree: () => {} });
    const head = model.tokenize(STORY).slice(0, 220);
    const [owners, asked] = ["It holds all of it.", "What does the node hold?"].map((text) => model.tokenize(text));
    const demand = (end: readonly Token[] = []) => ({ prompt: [...head, ...end], isolation: "", affinityKey: "" });

    /** Takes a slot for a prompt with this end. Reads the beginning in batches of its own, which are then the same ones. */
    const begin = async (end: readonly Token[] = []): Promise<{ slot: Slot; cached: number }> => {
      const slot = slots.take(demand(end));
      if (!slot) throw new Error("no slot is free");
      const cached = await slots.adapt(slot, demand(end));
      if (cached === 0) await decoder.read(slot.sequence, head);
      return { slot, cached };
    };
    /** Writes tokens greedily behind the end, with the likeliest others at each. */
    const write = async ({ sequence }: Slot, end: readonly Token[] = []) => {
      const options = { evaluateOptions: { temperature: 0 }, alternatives: 5, seed: undefined, position: () => 0 };
      const sampler = new Sampler(decoder, sequence, options);
      const written: Sample[] = [];
      for (let next = end; written.length < 24; next = written.slice(-1).map(({ token }) => token))
        written.push(await sampler.next(next));
      sampler.close();
      return written;
    };

    const read = await begin(asked);
    const expected = await write(read.slot, asked);
    await slots.discard(read.slot);
    const owner = await begin(owners);
    await decoder.read(owner.slot.sequence, owners ?? []);
    const copied = await begin(asked);
    expect([read.cached, owner.cached, copied.cached]).toEqual([0, 0, head.length]);
    expect(await write(copied.slot, asked)).toEqual(expected);
    slots.close();
    await runtime.close();
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

  test("a fork goes on in a copy beside its running owner, which keeps its own", async () => {
    const cache = cacheOf("forked");
    const first = [RULES, user("Who is it?")];
    const tokens = (await ask(backend, request(first, { maxOutputTokens: 4, cache }))).finished.usage?.inputTokens ?? 0;
    const wanted = request([...first, ANSWER, user("And where?")], { maxOutputTokens: TOKENS, cache });
    const fork = request([...first, ANSWER, user("Then why?")], { maxOutputTokens: TOKENS, cache });
    const [expected, forked] = [await cold(wanted), await cold(fork)];
    const rest = await askUntilWords(backend, wanted);
    const answered = await ask(backend, fork);
    expect([answered.text, answered.cached, backend.load().busySlots]).toEqual([forked, tokens - 1, 1]);
    const whole = await rest();
    expect([whole.text, whole.cached]).toEqual([expected, tokens - 1]);
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
