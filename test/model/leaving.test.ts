import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import { EngineError } from "../../engine/errors.ts";
import type { GenerateResponse } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { ask, missing, never, request, startBackend } from "../support/engine/demo-engine.ts";

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

  test.each(["blockDelta", "progress"])("by abort while it waits for the event after %s", async (last) => {
    const leave = new AbortController();
    const stream = backend.generate(request(last === "progress" ? LONG : COUNT), leave.signal);
    await until(stream, last);
    const next = stream.next();
    leave.abort();
    await expect(next).rejects.toEqual(cancelled);
    idle();
  });

  test("by abort while its events are not read", async () => {
    const leave = new AbortController();
    const stream = backend.generate(request(COUNT), leave.signal);
    await until(stream, "blockDelta");
    leave.abort();
    // The stream is not read any more: only a freed slot lets this request run.
    expect((await ask(backend, request("Count from 1 to 5"))).text).toBe("1, 2, 3, 4, 5");
    await expect(stream.next()).rejects.toEqual(cancelled);
    idle();
  });

  test("with the abort's own reason", async () => {
    const late = AbortSignal.abort(new EngineError("DEADLINE", "Too late."));
    await expect(ask(backend, request(COUNT), late)).rejects.toMatchObject({ reason: "DEADLINE" });
  });

  test("in the queue, after its position was reported", async () => {
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

  test("a full queue refuses at once, and other requests are served", async () => {
    const holder = backend.generate(request(COUNT), never());
    await until(holder, "blockDelta");
    const waiting = [1, 2].map(() => ask(backend, request("Count from 1 to 5")));
    await expect.poll(() => backend.load().waiting).toBe(2);
    await expect(ask(backend, request(COUNT))).rejects.toMatchObject({ reason: "QUEUE_FULL" });
    await holder.return();
    for (const reply of await Promise.all(waiting)) expect(reply.text).toBe("1, 2, 3, 4, 5");
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
