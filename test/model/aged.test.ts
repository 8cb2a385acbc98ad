import { expect, onTestFinished, test } from "vitest";
import { loadRuntime } from "../../engine/backends/llama/runtime/llama-runtime.ts";
import { system, user } from "../support/engine/canonical.ts";
import { digested, missing, never, OPTIONS, startBackend } from "../support/engine/demo-engine.ts";
import { nodeOf } from "../support/engine/node-rig.ts";
import { ScriptedBackend } from "../support/engine/scripted-backend.ts";
import { textAnswer } from "../support/events/events.ts";
import { inHeap } from "../support/heap-search.ts";
import { VirtualClock } from "../support/virtual-clock.ts";

/* What a node keeps of a conversation for its next turn: nothing of it is in its heap ten minutes later. */

/** The search word as codes: as text it would be found in the test itself. */
const WORD = [0x71, 0x7a, 0x6b, 0x76, 0x77, 0x78, 0x6a, 0x71, 0x66, 0x77, 0x67, 0x7a, 0x70, 0x76, 0x6b, 0x71];
const AGE_MS = 12 * 60_000;
const NODE = { nodeId: "n1", models: ["svc-qwen"] };

/** Sends a prompt with the word, and so many characters before it. Resolves to the details of the call's end. */
async function ask({ client }: Awaited<ReturnType<typeof nodeOf>>, characters: number): Promise<unknown> {
  const text = `${"words ".repeat(characters / 6)} and ${String.fromCharCode(...WORD)} behind them.`;
  const asked = { ...digested([system("Be brief."), user(text)]), model: "svc-qwen", maxOutputTokens: 2 };
  return (await client.generate(asked).ended).details;
}

test("the messages of a prompt", async () => {
  const clock = new VirtualClock();
  const script = () => [textAnswer("Yes.")];
  const backend = new ScriptedBackend({ ...NODE, slots: 1, script, keepsRequests: false, promptMegabytes: 1 });
  expect(await ask(await nodeOf(backend, { clock }), 20_000)).toBe("OK");
  expect(await inHeap(Buffer.from(WORD))).toEqual([true]);
  await clock.advance(AGE_MS);
  expect(await inHeap(Buffer.from(WORD))).toEqual([false]);
});

/** Resolves to the tokens of the word as the text of a kept segment stands in a snapshot, where nulls are spaces. */
async function tokensOfWord(): Promise<Buffer> {
  const runtime = await loadRuntime(OPTIONS, never());
  const tokens = runtime.model.tokenize(` ${String.fromCharCode(...WORD)}`, false);
  await runtime.close();
  const written = (unit: number) => {
    if (unit === 0) return " ";
    if (unit < 32 || unit > 126) return `\\u${unit.toString(16).toUpperCase().padStart(4, "0")}`;
    return JSON.stringify(String.fromCharCode(unit)).slice(1, -1);
  };
  return Buffer.from(tokens.map((token) => written(token & 0xffff) + written(token >>> 16)).join(""));
}

test.skipIf(missing !== "")("the tokens of its segments", async () => {
  const words = [await tokensOfWord(), Buffer.from(WORD)] as const;
  const clock = new VirtualClock();
  const backend = await startBackend({ ...NODE, slots: 1 }, clock);
  onTestFinished(() => backend.close());
  expect(await ask(await nodeOf(backend, { clock }), 600)).toBe("OK");
  expect(await inHeap(...words)).toEqual([true, false]);
  await clock.advance(AGE_MS);
  expect(await inHeap(...words)).toEqual([false, false]);
});
