import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { Client, type ClientReadableStream, credentials, status } from "@grpc/grpc-js";
import { expect, onTestFinished, test } from "vitest";
import type { ConnectionLimits } from "../../../engine/grpc/interceptors.ts";
import { HealthService } from "../../../proto/gen/grpc/health/v1/health.ts";
import { clientOf, nodeOf, scripted } from "../../support/engine/node-rig.ts";
import { framed } from "../../support/engine/raw-generate.ts";
import { finished, started, textAnswer } from "../../support/events/events.ts";
import { latch } from "../../support/latch.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { until } from "../../support/until.ts";

/*
 * The limits of one connection to a node, beside others that are served.
 */

/** A node whose answer to "stay" does not end before it is released; all others end. */
async function nodeWith(limits: Partial<ConnectionLimits>) {
  const { passed, open: letGo } = latch();
  const backend = scripted(async function* (request, signal) {
    if (!JSON.stringify(request.messages).includes("stay")) return yield textAnswer("Hello.");
    yield [started()];
    await Promise.race([passed, once(signal, "abort")]);
    yield [finished()];
  }, 2_000);
  const connection = { maxCalls: 1000, maxRequestBytes: 1_000_000_000, maxWatches: 1000, ...limits };
  const { node } = await nodeOf(backend, { connection });
  const client = () => clientOf(node.address);
  const refusals = async () =>
    (await node.metrics.callsRefused.get()).values.map(({ labels, value }) => [labels.limit, value]);
  return { node, client, refusals, letGo };
}

const KILOBYTES = 1024;
const of = (kilobytes: number, word = "") => generateRequest({}, word + "x".repeat(kilobytes * KILOBYTES));

test("requests beyond a connection's byte limit are refused there, and other connections are served", async () => {
  const { client, refusals } = await nodeWith({ maxRequestBytes: 300 * KILOBYTES });
  const [greedy, other] = [client(), client()];
  const stays = greedy.generate(of(200, "stay"));
  await stays.seen("started");
  const { code, info, details } = await greedy.generate(of(200)).ended;
  expect({ code, reason: info?.reason, details }).toEqual({
    code: status.RESOURCE_EXHAUSTED,
    reason: "QUEUE_FULL",
    details: "This connection has too much open.",
  });
  expect((await other.generate(of(200)).ended).code).toBe(status.OK);
  expect((await greedy.generate(of(50)).ended).code).toBe(status.OK);
  expect(await refusals()).toEqual([["request_bytes", 1]]);
  // Finished requests do not count.
  stays.call.cancel();
  await stays.ended;
  await expect.poll(async () => (await greedy.generate(of(200)).ended).code).toBe(status.OK);
});

test("incomplete requests count too", async () => {
  const { node, client, refusals } = await nodeWith({ maxRequestBytes: 300 * KILOBYTES });
  const session: ClientHttp2Session = connect(`http://${node.address}`);
  onTestFinished(() => session.destroy());
  const unfinished = (): ClientHttp2Stream => {
    const path = "/svc.inference.v1.InferenceService/Generate";
    const stream = session.request({
      ":method": "POST",
      ":path": path,
      "content-type": "application/grpc",
      te: "trailers",
    });
    stream.on("error", () => {});
    stream.write(framed(Buffer.alloc(1024 * KILOBYTES)).subarray(0, 60 * KILOBYTES));
    return stream;
  };
  const statuses: unknown[] = [];
  for (let count = 0; count < 6; count += 1) unfinished().on("response", (head) => statuses.push(head["grpc-status"]));
  await until(() => statuses.length > 0, "one is refused");
  expect(statuses).toEqual([String(status.RESOURCE_EXHAUSTED)]);
  expect((await client().generate(of(200)).ended).code).toBe(status.OK);
  expect(await refusals()).toEqual([["request_bytes", 1]]);
});

test("watches beyond a connection's limit are refused there, each kind separately", async () => {
  const { node, client, refusals } = await nodeWith({ maxWatches: 3 });
  const channel = new Client(node.address, credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });
  onTestFinished(() => channel.close());
  const codes: number[] = [];
  const watch = (): ClientReadableStream<unknown> => {
    const { path, requestSerialize, responseDeserialize } = HealthService.watch;
    const call = channel.makeServerStreamRequest(path, requestSerialize, responseDeserialize, { service: "" });
    call.on("error", (error: { readonly code: number }) => codes.push(error.code));
    call.on("data", () => {});
    return call;
  };
  const watches = [watch(), watch(), watch(), watch(), watch()];
  await until(() => codes.length === 2, "two are refused");
  expect(codes).toEqual([status.RESOURCE_EXHAUSTED, status.RESOURCE_EXHAUSTED]);
  expect(await refusals()).toEqual([["watches", 2]]);
  const reports = client();
  const received: unknown[] = [];
  reports
    .loadReports(1)
    .on("data", (report: unknown) => received.push(report))
    .on("error", () => {});
  await until(() => received.length > 0, "load reports come");
  // Leaving frees a place.
  watches[0]?.cancel();
  await until(() => codes.length === 3, "it has left");
  await expect
    .poll(async () => {
      const again = watch();
      const is = await new Promise((resolve) =>
        again.once("data", () => resolve("served")).once("error", () => resolve("refused")),
      );
      return is;
    })
    .toBe("served");
});

test("calls beyond a connection's limit wait on the client's side, and others are served", async () => {
  const { client, letGo } = await nodeWith({ maxCalls: 2 });
  const [greedy, other] = [client(), client()];
  // The limit arrives with the node's first frame.
  await greedy.generate(of(1)).ended;
  const stay = [greedy.generate(of(1, "stay")), greedy.generate(of(1, "stay"))];
  await Promise.all(stay.map((reading) => reading.seen("started")));
  const waits = greedy.generate(of(1));
  expect((await other.generate(of(1)).ended).code).toBe(status.OK);
  expect(waits.events).toEqual([]);
  letGo();
  expect((await waits.ended).code).toBe(status.OK);
});

/**
 * The first Node version in which a server can raise the number of accepted resets; older ones end a connection after a
 * thousand resets at once.
 */
const FIRST_TO_TAKE_MORE = 22;
const GIVEN_UP = Number(process.versions.node.split(".")[0]) >= FIRST_TO_TAKE_MORE ? 1_500 : 950;

test("cancelling as many calls as Node accepts resets does not end the connection's other calls", async () => {
  const { client, letGo } = await nodeWith({});
  const shared = client();
  const runs = shared.generate(of(0, "stay"));
  await runs.seen("started");
  for (let left = 0; left < GIVEN_UP; left += 50) {
    const leaving = Array.from({ length: 50 }, () => shared.generate(of(0, "stay")));
    await Promise.race([Promise.all(leaving.map((reading) => reading.seen("started"))), runs.ended]);
    for (const { call } of leaving) call.cancel();
    await Promise.all(leaving.map(({ ended }) => ended));
  }
  letGo();
  expect((await runs.ended).code).toBe(status.OK);
});
