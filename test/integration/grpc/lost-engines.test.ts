import { expect, onTestFinished, test } from "vitest";
import { EngineError } from "../../../engine/errors.ts";
import { NodeClient, type Reading } from "../../support/engine/node-client.ts";
import type { Script } from "../../support/engine/scripted-backend.ts";
import { blockEnd, delta, finished, started, textAnswer, textStart } from "../../support/events/events.ts";
import { engineOf, gatewayOf } from "../../support/gateway/own-services.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";

/* gRPC clients use the router of the public API: lost engines are retried and continued for them, too. */

async function answered(script: Script, calls: number): Promise<Reading> {
  const engines = await Promise.all([engineOf(script), engineOf(script)]);
  const gateway = await gatewayOf(engines, { grpc: { port: 0 } });
  const client = new NodeClient(gateway.grpcAddress, undefined, { authorization: `Bearer ${gateway.key}` });
  onTestFinished(() => client.close());
  const reading = client.generate(generateRequest());
  expect(await reading.ended).toMatchObject({ code: 0 });
  expect(engines.reduce((sum, { backend }) => sum + backend.requests.length, 0)).toBe(calls);
  return reading;
}

function textOf(reading: Reading): string {
  expect(reading.legal() && reading.finished()).toBe(true);
  return reading.events.map(({ kind }) => (kind?.$case === "blockDelta" ? kind.value.text : "")).join("");
}

test("G9 one that is lost before its first delta is replaced, and its caller sees one answer", async () => {
  let tries = 0;
  const reading = await answered(async function* () {
    tries += 1;
    if (tries > 1) yield* textAnswer("whole").map((event) => [event]);
    else {
      yield [started(), textStart(0)];
      throw new EngineError("ENGINE_DOWN", "lost");
    }
  }, 2);
  expect(textOf(reading)).toBe("whole");
});

test("G9 one that is lost in mid-answer is gone on from by another", async () => {
  let tries = 0;
  const reading = await answered(async function* () {
    tries += 1;
    yield { events: [started()], tokens: [] };
    yield { events: [textStart(0), delta(0, "a")], tokens: [1] };
    yield { events: [delta(0, "b")], tokens: [2] };
    if (tries === 1) throw new EngineError("ENGINE_DOWN", "lost");
    yield { events: [delta(0, "c")], tokens: [3] };
    yield { events: [blockEnd(0), finished()], tokens: [] };
  }, 2);
  expect(textOf(reading)).toBe("abc");
  expect(reading.tokens).toEqual([]);
});
