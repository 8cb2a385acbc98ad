import { expect, test } from "vitest";
import { ANSWER_PATHS, bodyFor } from "../../support/http/answer-check.ts";
import { metricQuantile } from "../../support/metric-text.ts";
import { Fleet, nothingOpen, show, size } from "../../support/processes/fleet.ts";
import { SeededRandom } from "../../support/seeded-random.ts";

const fleet = new Fleet();

test("E5 clients that leave at any moment leave nothing behind", async () => {
  const aborts = size(500, 10_000);
  const nodes = await fleet.engines(3, {
    tokensPerSecond: 100,
    timeToFirstTokenMs: 50,
    answerTokens: { min: 10, max: 30 },
    slots: 8,
  });
  const gateway = await fleet.inFrontOf(nodes);
  const chance = new SeededRandom(7);
  const tally = { left: 0, complete: 0, refused: 0, broken: 0 };
  let sent = 0;
  const client = async () => {
    while (sent < aborts) {
      sent += 1;
      const path = ANSWER_PATHS[Math.floor(chance.next() * ANSWER_PATHS.length)] ?? "/v1/messages";
      const controller = new AbortController();
      const timer = setTimeout(() => controller.abort(), chance.next() * 400);
      const stream = chance.next() < 0.7;
      const body = bodyFor(path, `abort ${sent}`, { stream });
      try {
        const response = await gateway.post(path, body, controller.signal);
        await response.text();
        if (response.status === 200) tally.complete += 1;
        else tally.refused += 1;
      } catch {
        if (controller.signal.aborted) tally.left += 1;
        else tally.broken += 1;
      }
      clearTimeout(timer);
    }
  };
  await Promise.all(Array.from({ length: 40 }, client));
  await nothingOpen(gateway, nodes);
  const engineTexts = await Promise.all(nodes.map((node) => node.metrics()));
  const p99 = engineTexts.map((text) => metricQuantile(text, "svc_engine_cancel_latency_seconds", 0.99));
  const gatewayP99 = metricQuantile(await gateway.stats(), "svc_cancel_latency_seconds", 0.99);
  show("random aborts", { sent, ...tally, engineCancelP99AtMost: p99, gatewayCancelP99AtMost: gatewayP99 });
  expect(tally.left).toBeGreaterThan(aborts / 4);
  expect({ refused: tally.refused, broken: tally.broken }).toEqual({ refused: 0, broken: 0 });
});
