import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import type { GenerateRequest, GenerateResponse } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Message } from "../../proto/gen/svc/inference/v1/messages.ts";
import { assistant, system, text, user } from "../support/engine/canonical.ts";
import { ask, missing, never, request, startBackend } from "../support/engine/demo-engine.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { sizeOf } from "../support/size.ts";

const FLOOD = 40;

describe.skipIf(missing !== "")("between tenants", () => {
  let backend: LlamaBackend;
  beforeAll(async () => {
    backend = await startBackend({ slots: 1, queueLength: FLOOD + 1, contextTokens: 512, maxQueueWaitMs: 600_000 });
  });
  afterAll(() => backend.close());

  test("a flood of 40 requests delays another tenant by one more service at most", async () => {
    const served: string[] = [];
    const use = async (wanted: GenerateRequest) => {
      let isServed = false;
      for await (const { events } of backend.generate(wanted, never())) {
        if (isServed || !events.some(({ kind }) => kind?.$case === "blockStarted")) continue;
        isServed = true;
        served.push(wanted.tenant);
      }
    };
    const ask = (tenant: string) => use(request("Count from 1 to 5.", { tenant, maxOutputTokens: 1 }));
    const holder = backend.generate(request("Count from 1 to 5."), never());
    await holder.next();
    const flood = Array.from({ length: FLOOD }, () => ask("flood"));
    await expect.poll(() => backend.load().waiting, { timeout: 30_000 }).toBe(FLOOD);
    await holder.return();
    const servicesBefore: number[] = [];
    for (let i = 0; i < 5; i += 1) {
      const before = served.length;
      await ask("quiet");
      servicesBefore.push(served.indexOf("quiet", before) - before);
    }
    // The running request and one more: the wait stays under two service times.
    expect(Math.max(...servicesBefore)).toBeLessThanOrEqual(2);
    expect(backend.load().waiting).toBeGreaterThan(FLOOD / 2);
    await Promise.all(flood);
    expect(served.length).toBe(FLOOD + 5);
    expect(backend.load()).toMatchObject({ busySlots: 0, waiting: 0 });
  }, 60_000);
});

describe.skipIf(missing !== "")("concurrent prefills", () => {
  test("concurrent prefills count as work of the node until they are prefilled, even without waiting requests", async () => {
    const backend = await startBackend({ slots: 1, contextTokens: 1024, batchTokens: 128 });
    let tokens = 0;
    for await (const { events } of backend.generate(request("word ".repeat(400), { maxOutputTokens: 1 }), never()))
      for (const { kind } of events) {
        if (kind?.$case === "started") tokens = kind.value.inputTokens;
        const unread = backend.load().queuedUncachedTokens;
        if (kind?.$case === "progress") expect(unread).toBe(tokens - kind.value.prefilledTokens);
        if (kind?.$case === "finished") expect(unread).toBe(0);
      }
    expect(tokens).toBeGreaterThan(256);
    await backend.close();
  });
});

describe.skipIf(missing !== "")("the load", () => {
  test("the load has steps in flight only during a step: a slow reader is not a stuck engine", async () => {
    const backend = await startBackend({ slots: 1, contextTokens: 512 });
    expect(backend.load().steps?.inFlight).toBe(0);
    const slow = backend.generate(request("Count from 1 to 12."), never());
    await slow.next();
    const restsAt = async () => {
      await expect.poll(() => backend.load().steps?.inFlight).toBe(0);
      return backend.load().steps?.made;
    };
    // The first token is decoded while the start is sent to the reader, and no other.
    const before = (await restsAt()) ?? 0;
    await slow.next();
    // The library has been called for the next token, and answers later.
    expect(backend.load().steps?.inFlight).toBe(1);
    expect(await restsAt()).toBe(before + 1);
    const waiting = backend.generate(request("one two three"), never());
    await waiting.next();
    const { kvTokensUsed = 0, ...load } = backend.load();
    expect(kvTokensUsed).toBeGreaterThan(15);
    expect(load).toMatchObject({ kvTokensTotal: 512, kvUse: kvTokensUsed / 512, waiting: 1 });
    const inputTokens = await backend.countTokens(request("one two three"), never());
    expect(load.queuedUncachedTokens).toBeLessThanOrEqual(inputTokens);
    expect(load.queuedUncachedTokens).toBeGreaterThan(0);
    await waiting.return();
    await slow.return();
    expect(backend.load()).toMatchObject({ busySlots: 0, waiting: 0, kvTokensUsed: 0, queuedUncachedTokens: 0 });
    await backend.close();
  });
});

const COUNT = "Count from 1 to 75";
const LONG = "one two three four\n".repeat(350);
const cancelled = expect.objectContaining({ reason: "CANCELLED" });

async function until(stream: AsyncGenerator<GenerateResponse>, $case: string): Promise<void> {
  for (;;) {
    const { value, done } = await stream.next();
    if (done) throw new Error(`the stream ended without ${$case}`);
    if (value.events.some(({ kind }) => kind?.$case === $case)) return;
  }
}

describe.skipIf(missing !== "")("a cancelled request frees its slot", () => {
  let backend: LlamaBackend;
  beforeAll(async () => {
    backend = await startBackend({ slots: 1, batchTokens: 64, queueLength: 2 });
  });
  afterAll(() => backend.close());

  const idle = () => expect(backend.load()).toMatchObject({ slots: 1, busySlots: 0, waiting: 0 });

  test("a cancelled request frees its slot by abort while its prompt is prefilled", async () => {
    const leave = new AbortController();
    const stream = backend.generate(request(LONG), leave.signal);
    await until(stream, "progress");
    const next = stream.next();
    leave.abort();
    await expect(next).rejects.toEqual(cancelled);
    idle();
  });

  test("a cancelled request frees its slot by abort while its events are not read", async () => {
    const leave = new AbortController();
    const stream = backend.generate(request(COUNT), leave.signal);
    await until(stream, "blockDelta");
    leave.abort();
    // The stream is not read any more: only a freed slot lets this request run.
    expect((await ask(backend, request("Count from 1 to 5"))).text).toBe("1, 2, 3, 4, 5");
    await expect(stream.next()).rejects.toEqual(cancelled);
    idle();
  });

  test("a cancelled request frees its slot in the queue, after its position was reported", async () => {
    const holder = backend.generate(request(COUNT), never());
    await until(holder, "blockDelta");
    const leave = new AbortController();
    const waiting = backend.generate(request(COUNT), leave.signal);
    const { value: first } = await waiting.next();
    expect(first?.events.map(({ kind }) => kind?.$case)).toEqual(["started", "progress"]);
    expect(backend.load().waiting).toBe(1);
    const next = waiting.next();
    leave.abort();
    await expect(next).rejects.toEqual(cancelled);
    expect(backend.load().waiting).toBe(0);
    await holder.return();
    idle();
  });

  test("closing the backend ends waiting requests", async () => {
    const other = await startBackend({ slots: 1 });
    const holder = other.generate(request(COUNT), never());
    await until(holder, "blockDelta");
    const waiting = other.generate(request(COUNT), never());
    await waiting.next();
    const turnedAway = expect(waiting.next()).rejects.toMatchObject({ reason: "ENGINE_DOWN" });
    await other.close();
    await turnedAway;
    await expect(holder.next()).rejects.toThrow();
  });
});

const TENANTS = ["a", "b", "c"];
/** Three answers each: the full size compares 114. */
const CONVERSATIONS = sizeOf({ quick: 24, promised: 38 });
/** The time limit of the full size on a busy machine, in milliseconds. */
const TIME_LIMIT_MS = 300_000;
const SLOTS = 4;
const TOKENS = 24;
const QUESTIONS = ["Who are you?", "What can you do for me?", "Tell me about the weather in the north of Italy."];

/** A beginning shared by all conversations, so that a slot of the same tenant is worth its cache to another. */
const SHARED = system("You answer in short and plain sentences. ".repeat(10));

/** A turn of a conversation: its messages, and the answer of an engine with empty caches. */
type Turn = { readonly messages: readonly Message[]; readonly cold: string };

describe.skipIf(missing !== "")("under random load", () => {
  let backend: LlamaBackend;
  const conversations: Turn[][] = [];

  beforeAll(async () => {
    backend = await startBackend({ slots: SLOTS, contextTokens: 512, queueLength: CONVERSATIONS });
    for (let each = 0; each < CONVERSATIONS; each += 1) conversations.push(await coldTurns(each));
  }, TIME_LIMIT_MS);
  afterAll(() => backend.close());

  /** Runs a conversation without cache hits. */
  async function coldTurns(each: number): Promise<Turn[]> {
    const turns: Turn[] = [];
    let messages: readonly Message[] = [SHARED, user(`Count from ${each} to ${each + 5}.`)];
    for (const question of QUESTIONS) {
      const cache = { affinityKey: "", isolationSalt: `cold ${each} ${turns.length}`, ttl: undefined };
      const { text: cold, cached } = await ask(backend, request(messages, { maxOutputTokens: TOKENS, cache }));
      expect([cold === "", cached]).toEqual([false, 0]);
      turns.push({ messages, cold });
      messages = [...messages, assistant(text(cold)), user(question)];
    }
    return turns;
  }

  test(
    "every finished answer equals the uncached one, whatever ran beside it, was cached or cancelled",
    async () => {
      const random = seededRandom(1);
      let finished = 0;
      let cached = 0;
      let left = 0;
      const talk = async (turns: readonly Turn[], each: number) => {
        for (const { messages, cold } of turns) {
          const tenant = TENANTS[each % TENANTS.length] ?? "";
          const wanted = request(messages, { tenant, maxOutputTokens: TOKENS });
          if (random() < 0.2) {
            await leaveAt(backend, wanted, Math.floor(random() * TOKENS));
            left += 1;
          }
          const answer = await ask(backend, wanted);
          expect(answer.text).toBe(cold);
          finished += 1;
          cached += answer.finished.usage?.cachedInputTokens ?? 0;
        }
      };
      await Promise.all(conversations.map(talk));
      expect(finished).toBe(CONVERSATIONS * QUESTIONS.length);
      expect(left).toBeGreaterThan(5);
      // Some of them used the cache.
      expect(cached).toBeGreaterThan(0);
      const { passes, ...load } = backend.load();
      expect(load).toMatchObject({ slots: SLOTS, busySlots: 0, waiting: 0 });
      // Scattered sequences would take a pass each.
      expect((passes?.gap ?? 1) / (passes?.step ?? 1)).toBeLessThan(0.02);
    },
    TIME_LIMIT_MS,
  );
});

/** Requests an answer and cancels after its first steps. */
async function leaveAt(backend: LlamaBackend, wanted: ReturnType<typeof request>, steps: number): Promise<void> {
  const leave = new AbortController();
  let seen = 0;
  try {
    for await (const _ of backend.generate(wanted, leave.signal)) {
      seen += 1;
      if (seen > steps) leave.abort();
    }
  } catch (error) {
    expect(error).toMatchObject({ reason: "CANCELLED" });
  }
}
