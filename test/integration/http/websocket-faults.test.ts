import { expect, onTestFinished, test } from "vitest";
import { EngineError } from "../../../engine/errors.ts";
import type { Script } from "../../support/engine/scripted-backend.ts";
import { startEngine } from "../../support/engine/start-engine.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { startGateway } from "../../support/gateway/start-gateway.ts";
import { FrameClient } from "../../support/http/frame-client.ts";

/* Losses beside a socket. */

const MODEL = "svc-qwen";
const LONG = "a long text of a user, ".repeat(1_000);
const YES = [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "Yes." }] }];

async function gatewayOf(addresses: readonly string[], settings: object = {}) {
  const gateway = await startGateway([...addresses], { ...settings });
  onTestFinished(() => gateway.stop());
  const open = async (key = gateway.key) => {
    const client = await FrameClient.open({ port: gateway.port, key });
    onTestFinished(() => client.ws.terminate());
    return client;
  };
  return { gateway, open };
}

async function engineOf(script: Script, options: object = {}) {
  const engine = await startEngine(script, options);
  onTestFinished(() => engine.stop());
  return engine;
}

test("an engine that is lost in mid-answer is followed by another, and the conversation goes on", async () => {
  let isLost = false;
  const script: Script = async function* () {
    yield [started(), textStart(0), delta(0, "one "), delta(0, "two ")];
    if (isLost) {
      isLost = false;
      throw new EngineError("ENGINE_DOWN", "gone");
    }
    yield [delta(0, "three"), blockEnd(0), finished()];
  };
  const engines = [await engineOf(script), await engineOf(script)];
  const { open } = await gatewayOf(engines.map(({ address }) => address));
  const client = await open();
  const { id } = await client.ask({ model: MODEL, input: LONG });
  isLost = true;
  const second = await client.ask({ model: MODEL, input: "go on", previous_response_id: id });
  expect(second).toMatchObject({ status: "completed", output_text: "one two three" });
  const third = await client.ask({ model: MODEL, input: "and on", previous_response_id: second.id });
  expect(third.status).toBe("completed");
  const seen = engines.flatMap(({ backend }) => backend.requests.map(({ messages }) => messages.length));
  expect(seen.sort()).toEqual([1, 3, 3, 5]);
});

test("a gateway that is replaced is followed by another, which gets the conversation once", async () => {
  const engine = await engineOf(() => [[started(), textStart(0), delta(0, "Yes."), blockEnd(0), finished()]]);
  const first = await gatewayOf([engine.address]);
  const second = await gatewayOf([engine.address]);
  const before = await first.open();
  const { id, output } = await before.ask({ model: MODEL, input: LONG });
  first.gateway.webSockets.drain(0);
  expect(await before.closed).toBe(1001);
  const after = await second.open();
  const lost = await after.ask({ model: MODEL, input: "go on", previous_response_id: id });
  expect(lost.error?.code).toBe("previous_response_not_found");
  const items = [{ role: "user", content: LONG }, ...output, { role: "user", content: "go on" }];
  const whole = await after.ask({ model: MODEL, input: items });
  const next = await after.ask({ model: MODEL, input: "and on", previous_response_id: whole.id });
  expect([whole.status, next.status]).toEqual(["completed", "completed"]);
  expect(engine.backend.requests.at(-1)?.messages).toHaveLength(5);
});

test("callers that fill caches, lanes and sockets cost an honest one at most a whole upload", async () => {
  const engine = await engineOf(() => [[started(), textStart(0), delta(0, "Yes."), blockEnd(0), finished()]], {
    promptMegabytes: 1,
  });
  const overloadManager = { resourceMonitors: { inflightBodyBytes: { maxBytes: 3_000_000 } } };
  const { gateway, open } = await gatewayOf([engine.address], { maxBodyBytes: 262_144, overloadManager });
  const honest = await open();
  const items: object[] = [{ role: "user", content: LONG }];
  let { id } = await honest.ask({ model: MODEL, input: items });
  const key = await gateway.createKey("--name", "hostile", "--models", "all");
  const sockets = await Promise.all(Array.from({ length: 32 }, () => open(key)));
  let uploads = 0;
  for (let round = 0; round < 4; round += 1) {
    const text = (at: number) => `${round} ${at} ${LONG.repeat(4)}`;
    for (const client of sockets)
      for (let lane = 0; lane < 4; lane += 1)
        client.send({ type: "response.create", model: MODEL, input: text(lane), stream_id: `lane${lane}` });
    items.push(...YES, { role: "user", content: `turn ${round}` });
    let answered = await honest.ask({ model: MODEL, input: items.slice(-1), previous_response_id: id });
    if (answered.error?.code === "previous_response_not_found") {
      uploads += 1;
      answered = await honest.ask({ model: MODEL, input: items });
    }
    expect(answered.status).toBe("completed");
    id = answered.id;
  }
  expect(uploads).toBeLessThan(4);
  const own = engine.backend.requests.filter(({ messages }) => messages.length > 1);
  expect(own.map(({ messages }) => messages.length)).toEqual([3, 5, 7, 9]);
});
