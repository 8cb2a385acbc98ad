import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LlamaBackend } from "../../engine/backends/llama/llama-backend.ts";
import { ask, missing, never, request, startBackend } from "../support/engine/demo-engine.ts";

/** An answer that continues until the context is full. */
const ENDLESS = JSON.stringify({ type: "string", minLength: 4_000 });
const ROOM = 600;

describe.skipIf(missing !== "")("a new request beside long answers", () => {
  let backend: LlamaBackend;
  beforeAll(async () => {
    backend = await startBackend();
  });
  afterAll(() => backend.close());

  test("gets a slot with another cache at once, before the long answers end", async () => {
    for (const tenant of ["a", "b", "c"]) await ask(backend, request("Count from 1 to 5.", { tenant }));
    const constraint = { name: "x", schemaJson: ENDLESS, strict: false };
    const outputConstraint = { kind: { $case: "jsonSchema", value: constraint } } as const;
    let over = 0;
    const lengthy = [1, 2].map(async (each) => {
      const wanted = request(`Say ${each}.`, { tenant: "lengthy", maxOutputTokens: ROOM, outputConstraint });
      let begun = 0;
      for await (const { events } of backend.generate(wanted, never())) begun += events.length;
      over += 1;
      return begun;
    });
    const before = () => backend.load().steps?.made ?? 0;
    // Both requests are decoding.
    await expect.poll(() => backend.load().busySlots).toBe(2);
    const madeBefore = before();
    await expect.poll(() => before() - madeBefore).toBeGreaterThan(10);
    expect((await ask(backend, request("Count from 1 to 5.", { tenant: "d" }))).text).toBe("1, 2, 3, 4, 5");
    expect(over).toBe(0);
    for (const events of await Promise.all(lengthy)) expect(events).toBeGreaterThan(ROOM / 2);
  });
});
