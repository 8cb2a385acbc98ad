import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import type { Reading } from "../../support/engine/node-client.ts";
import { HEALTH_NAMES, watchHealth } from "../../support/engine/node-health.ts";
import { clientOf, nodeOf, scripted } from "../../support/engine/node-rig.ts";
import { rawGenerate } from "../../support/engine/raw-generate.ts";
import { fastSimulator } from "../../support/engine/simulated-node.ts";
import { answerOf } from "../../support/events/answer-of.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { eventually } from "../../support/eventually.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

/** A node with four running generations, read as fast as they come. */
async function busyNode(options: Parameters<typeof fastSimulator>[0] = {}) {
  const backend = fastSimulator(options);
  const { node, client } = await nodeOf(backend);
  const running = Array.from({ length: 4 }, (_, at) => client.generate(generateRequest({}, `run ${at}`)));
  await Promise.all(running.map((reading) => reading.seen("blockDelta")));
  return { backend, node, client, running };
}

const endOf = async (reading: Reading) => {
  const { code, info } = await reading.ended;
  return { code, reason: info?.reason, legal: reading.legal(), finished: reading.finished() };
};

test("a node that stops under load finishes running calls, refuses new ones, and reports it to health", async () => {
  const { node, client, running } = await busyNode({ tokensPerSecond: 100 });
  const health = HEALTH_NAMES.map((name) => watchHealth(node.address, name));
  for (const { stop } of health) onTestFinished(stop);
  await Promise.all(health.map(({ is }) => is("SERVING")));
  const closed = node.server.close(600_000, new AbortController().signal);
  await Promise.all(health.map(({ is }) => is("NOT_SERVING")));
  const late = client.generate(generateRequest({}, "late"));
  expect(await endOf(late)).toMatchObject({ code: 14, reason: "DRAINING" });
  for (const reading of running)
    expect(await endOf(reading)).toEqual({ code: 0, reason: undefined, legal: true, finished: true });
  await closed;
  const gone = client.generate(generateRequest({}, "gone"));
  expect((await gone.ended).code).toBe(14);
});

test("calls that outlast the drain end with its status, in the middle of their answers", async () => {
  const { backend, node, running } = await busyNode({ tokensPerSecond: 10 });
  await node.server.close(0, new AbortController().signal);
  for (const reading of running)
    expect(await endOf(reading)).toEqual({ code: 14, reason: "DRAINING", legal: true, finished: false });
  expect(backend.load().busySlots).toBe(0);
});

test("DrainNode returns the number of running calls, which continue; with a timeout they end", async () => {
  const { backend, node, client, running } = await busyNode({ tokensPerSecond: 10 });
  expect(await client.drain()).toEqual({ runningRequests: 4 });
  expect((await client.generate(generateRequest()).ended).info?.reason).toBe("DRAINING");
  const before = running.map(({ events }) => events.length);
  await eventually(() => expect(running.every(({ events }, at) => events.length > (before[at] ?? 0))).toBe(true));
  expect(await client.drain(0)).toEqual({ runningRequests: 4 });
  for (const reading of running) expect(await endOf(reading)).toMatchObject({ code: 14, reason: "DRAINING" });
  expect(backend.load().busySlots).toBe(0);
  await eventually(() => expect(node.lines.filter(({ outcome }) => outcome === "DRAINING")).toHaveLength(5));
});

test("a slow reader gets its whole answer before the node closes", async () => {
  const pieces = Array.from({ length: 28 }, (_, at) => `${at}`.padEnd(4_096, "."));
  const script = () => [
    [started(), textStart(0)],
    ...pieces.map((piece) => [delta(0, piece)]),
    [blockEnd(0), finished()],
  ];
  const clock = new VirtualClock();
  const { node } = await nodeOf(scripted(script, 1), { clock });
  const { stream, stop } = rawGenerate(node.address, generateRequest());
  onTestFinished(stop);
  // The backend has finished; half of the answer waits until the caller reads more.
  await eventually(() => expect(node.lines.at(-1)).toMatchObject({ msg: "generate", outcome: "ok" }));
  let open = true;
  const closed = node.server.close(600_000, new AbortController().signal).then(() => {
    open = false;
  });
  await clock.advance(60_000);
  const late = clientOf(node.address);
  expect((await late.generate(generateRequest()).ended).info?.reason).toBe("DRAINING");
  let text = "";
  stream.on("data", (bytes: Buffer) => {
    text += bytes.toString("latin1");
  });
  const [trailers] = await once(stream, "trailers");
  expect(trailers["grpc-status"]).toBe("0");
  expect(pieces.filter((piece) => !text.includes(piece))).toEqual([]);
  while (open) await clock.advance(1_000);
  await closed;
});

test("aborting `cutOff` ends all connections at once", async () => {
  const { node, running } = await busyNode({ tokensPerSecond: 10 });
  const cutOff = new AbortController();
  const closed = node.server.close(600_000, cutOff.signal);
  cutOff.abort();
  await closed;
  for (const reading of running) {
    const end = await endOf(reading);
    expect(end.code).not.toBe(0);
    expect(end.finished).toBe(false);
  }
});

/** The answer of a reading, without its call ids. */
const answered = ({ events }: Reading) => answerOf(events).blocks;

test("answers that another node can continue are handed over after the grace, without loss", async () => {
  const seed = { seed: 3, answerTokens: { min: 120, max: 120 } };
  const { node, client } = await nodeOf(fastSimulator({ ...seed, tokensPerSecond: 60 }), { handoverGraceMs: 300 });
  const { node: other, client: next } = await nodeOf(fastSimulator(seed));
  const asked = [0, 1].map((at) => generateRequest({ resumable: true }, `run ${at}`));
  const running = asked.map((request) => client.generate(request));
  const plain = client.generate(generateRequest({}, "not resumable"));
  await Promise.all([...running, plain].map((reading) => reading.seen("blockDelta")));
  const closed = node.server.close(600_000, new AbortController().signal);
  for (const [at, reading] of running.entries()) {
    expect(await endOf(reading)).toEqual({ code: 14, reason: "DRAINING", legal: true, finished: false });
    const { started } = answerOf(reading.events);
    const { tokens } = reading;
    expect(tokens.length).toBeGreaterThan(0);
    expect(tokens.length).toBe(reading.events.filter(({ kind }) => kind?.$case === "blockDelta").length);
    const continuation = { modelRevision: started?.modelRevision ?? "", tokens, callIds: [] };
    const rest = next.generate(generateRequest({ resumable: true, continuation }, `run ${at}`));
    expect(await endOf(rest)).toMatchObject({ code: 0, legal: true, finished: true });
    const whole = next.generate(generateRequest({}, `run ${at}`));
    await whole.ended;
    expect(answered(rest)).toEqual(answered(whole));
    expect(answered(whole)[0]?.text.startsWith(answered(reading)[0]?.text ?? "-")).toBe(true);
    expect([rest.tokens.length, whole.tokens]).toEqual([120, []]);
  }
  const continued = other.lines.flatMap(({ continued_tokens }) =>
    continued_tokens === undefined ? [] : [continued_tokens],
  );
  expect(continued.toSorted()).toEqual(running.map(({ tokens }) => tokens.length).toSorted());
  expect(await endOf(plain)).toMatchObject({ code: 0, finished: true });
  await closed;
});

test("DrainNode may override the node's grace, and without one nothing is handed over", async () => {
  const { client } = await nodeOf(fastSimulator({ tokensPerSecond: 20 }));
  const reading = client.generate(generateRequest({ resumable: true }));
  await reading.seen("blockDelta");
  await client.drain();
  const before = reading.events.length;
  await eventually(() => expect(reading.events.length).toBeGreaterThan(before));
  await client.drain(undefined, 0);
  expect(await endOf(reading)).toMatchObject({ code: 14, reason: "DRAINING" });
});
