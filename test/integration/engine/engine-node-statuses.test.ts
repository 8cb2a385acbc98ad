import { once } from "node:events";
import type { OutgoingHttpHeaders } from "node:http2";
import { Metadata } from "@grpc/grpc-js";
import { expect, onTestFinished, test } from "vitest";
import type { Backend } from "../../../engine/backend.ts";
import { RetryInfo } from "../../../proto/gen/google/rpc/error_details.ts";
import { Status } from "../../../proto/gen/google/rpc/status.ts";
import { CountTokensRequest, GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { errorInfo } from "../../support/engine/node-client.ts";
import { nodeOf, scripted } from "../../support/engine/node-rig.ts";
import { framed, rawCall } from "../../support/engine/raw-generate.ts";
import { type Script, ScriptedBackend } from "../../support/engine/scripted-backend.ts";
import { fastSimulator } from "../../support/engine/simulated-node.ts";
import { delta, started, textStart } from "../../support/events/events.ts";
import { eventually } from "../../support/eventually.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";

/*
 * Every failed call has a machine-readable reason, whether the node, grpc-js or the health service raised the status.
 */

const CANARY = "canary-51be";

const forever: Script = async function* (_request, signal) {
  yield [started(), textStart(0), delta(0, "so ")];
  await once(signal, "abort");
};

/** A backend that never counts tokens and whose `describe` fails. */
class Mute extends ScriptedBackend {
  override countTokens(): Promise<number> {
    return new Promise(() => {});
  }

  override describe(): never {
    throw new Error(CANARY);
  }
}

async function failure(address: string, path: string, headers: OutgoingHttpHeaders, body: Uint8Array) {
  const { stream, status, stop } = rawCall(address, path, headers, body);
  onTestFinished(stop);
  stream.resume();
  const trailers = await status;
  const metadata = Metadata.fromHttp2Headers(trailers);
  return { code: Number(trailers["grpc-status"]), info: errorInfo({ metadata }), text: JSON.stringify(trailers) };
}

const GENERATE = "/svc.inference.v1.InferenceService/Generate";
const COUNT = "/svc.inference.v1.InferenceService/CountTokens";
const message = framed(GenerateRequest.encode(generateRequest({}, CANARY)).finish());
const tooLong = Buffer.from([0, 4, 0, 0, 1]);
const health = framed(Buffer.concat([Buffer.from([0x0a, CANARY.length]), Buffer.from(CANARY)]));

const unreadable = framed(Buffer.from(`\x0a\x7f${CANARY}`));
const manyUnreadable = framed(Buffer.from(`\x0a\x7f${CANARY}`.repeat(4_000)));
const countRequest = { ...generateRequest(), toolChoice: undefined, reasoning: undefined };
const counted = framed(CountTokensRequest.encode(countRequest).finish());
const DESCRIBE = "/svc.inference.v1.NodeService/DescribeNode";

test.each<[string, string, OutgoingHttpHeaders, Uint8Array, ended: string]>([
  ["an unknown service", `/${CANARY}.Service/Generate`, {}, message, "12 UNIMPLEMENTED"],
  ["an unknown method", `/svc.inference.v1.InferenceService/${CANARY}`, {}, message, "12 UNIMPLEMENTED"],
  ["no message", GENERATE, {}, Buffer.alloc(0), "12 UNIMPLEMENTED"],
  ["two messages instead of one", GENERATE, {}, Buffer.concat([message, message]), "12 UNIMPLEMENTED"],
  ["an unknown encoding", GENERATE, { "grpc-encoding": CANARY }, framed(message, true), "12 UNIMPLEMENTED"],
  ["a wrong encoding", GENERATE, { "grpc-encoding": "gzip" }, framed(message, true), "3 INVALID_REQUEST"],
  ["bytes that are not protobuf", GENERATE, {}, unreadable, "3 INVALID_REQUEST"],
  ["many bytes that are not protobuf", GENERATE, {}, manyUnreadable, "3 INVALID_REQUEST"],
  ["the same for a unary call", COUNT, {}, unreadable, "3 INVALID_REQUEST"],
  ["an invalid deadline", GENERATE, { "grpc-timeout": CANARY }, message, "3 INVALID_REQUEST"],
  ["a message above 64 MiB", GENERATE, {}, tooLong, "8 MESSAGE_TOO_LARGE"],
  ["a deadline that passes in mid-stream", GENERATE, { "grpc-timeout": "20m" }, message, "4 DEADLINE"],
  ["a deadline that passes before the answer", COUNT, { "grpc-timeout": "20m" }, counted, "4 DEADLINE"],
  ["an unknown health name", "/grpc.health.v1.Health/Check", {}, health, "5 MODEL_NOT_SERVED"],
  ["a fault of the node", DESCRIBE, {}, framed(Buffer.alloc(0)), "13 ENGINE_ERROR"],
])("a call that fails for %s carries ErrorInfo", async (_what, path, headers, body, ended) => {
  const { node } = await nodeOf(new Mute({ nodeId: "n1", models: ["svc-qwen"], slots: 8, script: forever }));
  const { code, info, text } = await failure(node.address, path, headers, body);
  expect([`${code} ${info?.reason}`, info?.domain]).toEqual([ended, "svc.inference"]);
  expect(text).not.toContain(CANARY);
  // The base64 of the details contains random words.
  expect(JSON.stringify(info)).not.toContain(CANARY);
});

test("the node keeps serving after all of these", async () => {
  const { node, client } = await nodeOf(fastSimulator());
  await failure(node.address, "/nothing.Here/Nothing", {}, message);
  await failure(node.address, GENERATE, {}, tooLong);
  const { code, metadata } = await client.generate(generateRequest()).ended;
  expect([code, metadata.get("grpc-status-details-bin")]).toEqual([0, []]);
});

/** The delay in a refusal's RetryInfo, in milliseconds. */
function retryDelayMs(metadata: Metadata): number | undefined {
  const [packed] = metadata.get("grpc-status-details-bin");
  const { details } = Status.decode(packed as Buffer);
  const found = details.find(({ typeUrl }) => typeUrl === "type.googleapis.com/google.rpc.RetryInfo");
  const delay = found && RetryInfo.decode(found.value).retryDelay;
  return delay && delay.seconds * 1_000 + delay.nanos / 1e6;
}

test("a full node returns a retry delay from its generations' durations; other refusals have none", async () => {
  const backend: Backend = fastSimulator({ slots: 1, queueLength: 0, answerTokens: { min: 1, max: 1 } });
  const { client: one } = await nodeOf(backend);
  const { client: other } = await nodeOf(scripted(forever, 1));

  // No generation has finished here yet.
  const holding = other.generate(generateRequest());
  await holding.seen("blockDelta");
  const refused = await other.generate(generateRequest()).ended;
  expect([refused.info?.reason, retryDelayMs(refused.metadata)]).toEqual(["QUEUE_FULL", 1_000]);
  expect(retryDelayMs((await other.generate(generateRequest({ model: "other" })).ended).metadata)).toBeUndefined();
  holding.call.cancel();

  // Twenty, each in almost no time.
  for (let at = 0; at < 20; at += 1) expect((await one.generate(generateRequest({}, `${at}`)).ended).code).toBe(0);
  const flood = Array.from({ length: 8 }, () => one.generate(generateRequest()));
  const ends = await Promise.all(flood.map(({ ended }) => ended));
  const delays = ends.filter(({ code }) => code === 8).map(({ metadata }) => retryDelayMs(metadata) ?? 0);
  expect(delays.length).toBeGreaterThan(0);
  for (const delay of delays) expect(delay).toBeLessThan(1_000);
  await eventually(() => expect(backend.load().busySlots).toBe(0));
});
