import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import type { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { missing, never, request, startBackend } from "../support/engine/demo-engine.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

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

  test("a higher priority is served first", async () => {
    const order: number[] = [];
    const ask = async (priority: number) => {
      for await (const { events } of backend.generate(request("Count from 1 to 5.", { priority }), never()))
        if (events.some(({ kind }) => kind?.$case === "finished")) order.push(priority);
    };
    const holder = backend.generate(request("Count from 1 to 5."), never());
    await holder.next();
    const all = Promise.all([0, -5, 7, 0].map(ask));
    await expect.poll(() => backend.load().waiting).toBe(4);
    await holder.return();
    await all;
    expect(order).toEqual([7, 0, 0, -5]);
  });
});

describe.skipIf(missing !== "")("concurrent prefills", () => {
  test("share each step, so that every step advances all of them", async () => {
    // Steps without measurable time are not reduced.
    const backend = await startBackend({ slots: 2, contextTokens: 1024, batchTokens: 128 }, new VirtualClock());
    const prompt = (word: string) => request(`${word} `.repeat(400), { maxOutputTokens: 1 });
    const read = async (wanted: GenerateRequest) => {
      const marks: number[] = [];
      for await (const { events } of backend.generate(wanted, never()))
        for (const { kind } of events) if (kind?.$case === "progress") marks.push(kind.value.prefilledTokens);
      return marks.map((mark, index) => mark - (marks[index - 1] ?? 0));
    };
    expect(new Set(await read(prompt("alone")))).toEqual(new Set([128]));
    // Later positions get somewhat fewer tokens, which take as long.
    const isHalf = (tokens: number) => tokens > 40 && tokens <= 64;
    for (const pieces of await Promise.all([read(prompt("one")), read(prompt("two"))]))
      expect(pieces.filter(isHalf).length).toBeGreaterThan(2);
    await backend.close();
  });

  test("count as work of the node until they are prefilled, even without waiting requests", async () => {
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
  test("has steps in flight only during a step: a slow reader is not a stuck engine", async () => {
    const backend = await startBackend({ slots: 1, contextTokens: 512 });
    expect(backend.load().steps?.inFlight).toBe(0);
    const slow = backend.generate(request("Count from 1 to 12."), never());
    const { value } = await slow.next();
    expect(value?.events[0]?.kind?.$case).toBe("started");
    expect(backend.load()).toMatchObject({ busySlots: 1 });
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
    for (let more = 2; more < 4; more += 1) {
      await slow.next();
      expect(await restsAt()).toBe(before + more);
    }
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
