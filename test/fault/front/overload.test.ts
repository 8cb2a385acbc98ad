import { afterEach, expect, test } from "vitest";
import { CATALOG } from "../../../gateway/catalog.ts";
import { becomes } from "../../support/becomes.ts";
import { type RunningEngine, startEngine } from "../../support/engine/start-engine.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { gate } from "../../support/gate.ts";
import { GatewayProcess } from "../../support/processes/gateway-process.ts";
import { sizeOf } from "../../support/size.ts";
import { until } from "../../support/until.ts";

/* F10: requests whose bodies do not fit into the heap together. */

const CHAT = "/v1/chat/completions";
const HEAP_MIB = sizeOf({ quick: 176, promised: 256 });
/** What of a request is kept in the heap until its answer begins: a digest for each of its messages. */
const MESSAGES = 6_000;
/** At one time; more bodies than that do not come in between two looks. */
const CALLERS = 8;
/** Together several times the heap. */
const MOST_REQUESTS = 1_000;
/** Callers do not stop when the first of them is turned away. */
const REFUSALS = 40;

let engine: RunningEngine | undefined;
let gateway: GatewayProcess | undefined;

afterEach(async () => {
  await gateway?.end();
  await engine?.stop();
});

test("a gateway whose heap fills turns new requests away before it would die, finishes the others and recovers", async () => {
  const { passed, open } = gate();
  engine = await startEngine(
    async function* () {
      // Until the first delta the request may have to be sent again, and is kept.
      yield [started()];
      await passed;
      yield [textStart(0), delta(0, "to the end"), blockEnd(0), finished()];
    },
    { slots: 10_000 },
  );
  const clusters = CATALOG.map(({ id }) => ({ model: id, endpoints: [{ address: engine?.address }] }));
  const through = ["env", `NODE_OPTIONS=--max-old-space-size=${HEAP_MIB}`];
  const timeouts = { perTryIdleTimeoutMs: 600_000, keepAliveIntervalMs: 600_000 };
  gateway = await GatewayProcess.start({ clusters, timeouts }, through);
  const front = gateway;
  await becomes(async () => (await fetch(`${front.adminUrl}/ready`)).ok, "the gateway is ready");
  const body = (at: number) => ({
    model: "svc-qwen",
    stream: true,
    messages: Array.from({ length: MESSAGES }, (_, turn) => ({
      role: turn % 2 === 0 ? "user" : "assistant",
      content: String(at),
    })),
  });
  const node = engine;
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
