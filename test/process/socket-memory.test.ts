import { expect, onTestFinished, test } from "vitest";
import { startScriptedService } from "../support/gateway/scripted-service.ts";
import { inHeap } from "../support/heap-search.ts";
import { FrameClient } from "../support/http/frame-client.ts";
import { until } from "../support/until.ts";

/* In a process of its own: a snapshot of a heap that other files have filled takes minutes on a busy machine. */

/** The search word as codes: as text it would be found in the test itself. */
const WORD = [0x71, 0x7a, 0x6b, 0x76, 0x77, 0x78, 0x6a, 0x71, 0x66, 0x77, 0x67, 0x7a, 0x70, 0x76, 0x6b, 0x71];

test("nothing of a conversation is in the heaps of gateway and node behind its socket", async () => {
  const service = await startScriptedService({ engine: { keepsRequests: false } });
  onTestFinished(() => service.stop());
  const client = await FrameClient.open(service.gateway);
  const frame = (more: object) =>
    client
      .ask({ model: "svc-qwen", input: `${String.fromCharCode(...WORD)} ${"a text, ".repeat(3_000)}`, ...more })
      .then(({ id }) => id);
  await frame({ previous_response_id: await frame({}) });
  // The search finds what the node keeps for the next turn.
  expect(await inHeap(Buffer.from(WORD))).toEqual([true]);
  await client.close();
  await until(() => service.engine.backend.endedLeases.length > 0, "the end of the lease");
  expect(await inHeap(Buffer.from(WORD))).toEqual([false]);
}, 120_000);
