import { expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import type { Script } from "../../support/engine/scripted-backend.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { engineOf } from "../../support/gateway/own-services.ts";
import { latch } from "../../support/latch.ts";
import { Fleet, healthy } from "../../support/processes/fleet.ts";
import { sizeOf } from "../../support/size.ts";
import { until } from "../../support/until.ts";

/* F10: requests whose bodies exceed the heap together. A blocked event loop: test/unit/gateway/overload.test.ts. */

const CHAT = "/v1/chat/completions";
const HEAP_MIB = sizeOf({ quick: 176, promised: 256 });
/** The heap keeps a digest for each message of a request until its answer begins. */
const MESSAGES = 6_000;
/** Concurrent callers; more bodies do not arrive between two checks. */
const CALLERS = 8;
/** Several times the heap together. */
const MOST_REQUESTS = 1_000;
/** Callers do not stop at the first refusal. */
const REFUSALS = 40;

const fleet = new Fleet();

test("a gateway with a full heap refuses new requests before it dies, finishes the others and recovers", async () => {
  const { passed, open } = latch();
  const through = ["env", `NODE_OPTIONS=--max-old-space-size=${HEAP_MIB}`];
  const timeouts = { perTryIdleTimeoutMs: 600_000, keepAliveIntervalMs: 600_000 };
  const script: Script = async function* () {
    // The request is kept until the first delta, because it may be retried.
    yield [started()];
    await passed;
    yield [textStart(0), delta(0, "to the end"), blockEnd(0), finished()];
  };
  const node = await engineOf(script, { slots: 10_000 });
  const front = await fleet.gateway({ endpoints: [{ address: node.address }] }, { timeouts }, through);
  await healthy(front, node.address);
  const body = (at: number) => ({
    model: "svc-qwen",
    stream: true,
    messages: Array.from({ length: MESSAGES }, (_, turn) => ({
      role: turn % 2 === 0 ? "user" : "assistant",
      content: String(at),
    })),
  });
  const refused: Response[] = [];
  const admitted: Promise<string>[] = [];
  let sent = 0;
  while (refused.length < REFUSALS && sent < MOST_REQUESTS) {
    sent += 1;
    const call = async () => {
      const response = await front.post(CHAT, body(sent));
      if (response.status !== 200) refused.push(response);
      return response.status === 200 ? response.text() : "refused";
    };
    admitted.push(call());
    await until(() => node.backend.requests.length + refused.length > sent - CALLERS, "the others have got somewhere");
  }
  expect(refused.length).toBeGreaterThanOrEqual(REFUSALS);
  expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([503]));
  expect(front.process.running).toBe(true);
  open();
  for (const text of await Promise.all(admitted)) expect(text).toMatch(/to the end|^refused$/);
  const again = async () => {
    const response = await front.post(CHAT, body(0));
    await response.text();
    return response.status === 200;
  };
  await becomes(again, "requests are taken again");
});
