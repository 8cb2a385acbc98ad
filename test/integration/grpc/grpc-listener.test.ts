import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:http2";
import { Client, credentials, status } from "@grpc/grpc-js";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  HealthService,
  HealthCheckResponse_ServingStatus as Serving,
} from "../../../proto/gen/grpc/health/v1/health.ts";
import { becomes } from "../../support/becomes.ts";
import { Certificates, HAS_OPENSSL, NO_OPENSSL } from "../../support/certificates.ts";
import { NodeClient } from "../../support/engine/node-client.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { gatewayOf } from "../../support/gateway/own-services.ts";
import { type ScriptedService, startScriptedService } from "../../support/gateway/scripted-service.ts";
import { latch } from "../../support/latch.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";

/* The listener: connections, drain, and callers that do not read. */

async function start(grpc: object = {}, gateway: object = {}): Promise<ScriptedService> {
  const service = await startScriptedService({ gateway: { grpc: { port: 0, ...grpc }, ...gateway } });
  onTestFinished(() => service.stop());
  return service;
}

function callerOf({ gateway }: ScriptedService, channel = credentials.createInsecure()): NodeClient {
  const client = new NodeClient(gateway.grpcAddress, channel, { authorization: `Bearer ${gateway.key}` });
  onTestFinished(() => client.close());
  return client;
}

function healthOf({ gateway }: ScriptedService, service: string): Promise<number> {
  const client = new Client(gateway.grpcAddress, credentials.createInsecure());
  const { path, requestSerialize, responseDeserialize } = HealthService.check;
  return new Promise((resolve) => {
    client.makeUnaryRequest(path, requestSerialize, responseDeserialize, { service }, (error, reply) => {
      client.close();
      resolve(reply?.status ?? -(error?.code ?? 0));
    });
  });
}

test("health needs no key, and reports the service but not models", async () => {
  const service = await start();
  expect(await healthOf(service, "")).toBe(Serving.SERVING);
  expect(await healthOf(service, "svc.inference.v1.InferenceService")).toBe(Serving.SERVING);
  expect(await healthOf(service, "svc.model/svc-qwen")).toBe(-5);
});

test("G5 a call without a key that sends too much is ended, and so is one reflection too many", async () => {
  const service = await start();
  expect(await healthOf(service, "x".repeat(5_000))).toBe(-status.RESOURCE_EXHAUSTED);
  const client = new Client(service.gateway.grpcAddress, credentials.createInsecure());
  onTestFinished(() => client.close());
  const bytes = (message: Buffer) => message;
  const reflection = () => {
    const call = client.makeBidiStreamRequest(
      "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
      bytes,
      bytes,
    );
    call.on("error", () => {});
    // ListServices, whose reply shows that the call is open.
    call.write(Buffer.from([0x3a, 0]));
    const ended = new Promise<number>((resolve) => call.on("status", ({ code }) => resolve(code)));
    return { call, ended, replied: new Promise((resolve) => call.once("data", resolve)) };
  };
  const open = Array.from({ length: 64 }, reflection);
  await Promise.all(open.map(({ replied }) => replied));
  expect(await reflection().ended).toBe(status.RESOURCE_EXHAUSTED);
  const [flooding] = open;
  for (let times = 0; times < 3_000; times += 1) flooding?.call.write(Buffer.from([0x3a, 0]));
  expect(await flooding?.ended).toBe(status.RESOURCE_EXHAUSTED);
  const answered = async () => {
    const { call, ended } = reflection();
    call.end();
    return (await ended) === status.OK;
  };
  await becomes(answered, "the ended call makes room for another");
});

test("G10 a drain is announced by health, ends with GOAWAY, and lets running answers come to their end", async () => {
  const service = await start();
  const { passed, open } = latch();
  service.play(async function* () {
    yield [started(), textStart(0), delta(0, "held ")];
    await passed;
    yield [blockEnd(0), finished()];
  });
  const client = callerOf(service);
  const running = client.generate(generateRequest());
  await running.seen("blockDelta");
  service.gateway.grpc?.announceDrain();
  expect(await healthOf(service, "")).toBe(Serving.NOT_SERVING);
  // The load balancer has not reacted yet: calls are served as before.
  const late = client.generate(generateRequest());
  await late.seen("blockDelta");
  let drained = false;
  const drain = service.gateway.grpc?.drain().then(() => {
    drained = true;
  });
  expect(await callerOf(service).generate(generateRequest()).ended).toMatchObject({ code: 14 });
  expect(drained).toBe(false);
  open();
  expect(await running.ended).toMatchObject({ code: 0 });
  expect(await late.ended).toMatchObject({ code: 0 });
  await drain;
});

test("G8 no more connections are taken than may be open", async () => {
  const globalDownstreamMaxConnections = { maxActiveDownstreamConnections: 1 };
  const service = await start({}, { overloadManager: { resourceMonitors: { globalDownstreamMaxConnections } } });
  expect(await callerOf(service).generate(generateRequest()).ended).toMatchObject({ code: 0 });
  expect(await callerOf(service).generate(generateRequest()).ended).toMatchObject({ code: 14 });
});

test("G7 a reader that takes nothing for too long is cut, and its engine is free", async () => {
  const service = await start({}, { timeouts: { requestTimeoutMs: 300 } });
  service.play(async function* () {
    yield [started(), textStart(0)];
    for (let count = 0; count < 2_000; count += 1) {
      yield [delta(0, "x".repeat(16_384))];
      await new Promise((resolve) => setImmediate(resolve));
    }
    yield [blockEnd(0), finished()];
  });
  const reading = callerOf(service).generate(generateRequest());
  await reading.seen("blockDelta");
  reading.call.pause();
  await becomes(async () => service.engine.backend.load().busySlots === 0, "the engine is free");
  reading.call.resume();
  expect((await reading.ended).code).not.toBe(0);
  const line = service.gateway.log.map((each) => JSON.parse(each)).findLast(({ msg }) => msg === "request");
  expect(line).toMatchObject({ end_reason: "slow_reader", format: "grpc" });
});

test("G3 too many wrong keys get the same error, and lose the connection each time", async () => {
  const service = await start();
  const session = connect(`http://${service.gateway.grpcAddress}`);
  const closed = once(session, "close");
  const call = () => {
    const path = "/svc.inference.v1.InferenceService/Generate";
    const head = { ":method": "POST", ":path": path, "content-type": "application/grpc" };
    const stream = session.request(head, { endStream: true });
    stream.resume();
    return once(stream, "response");
  };
  for (const [headers] of await Promise.all(Array.from({ length: 20 }, call)))
    expect(headers).toMatchObject({ "grpc-status": "16" });
  expect(session.closed).toBe(false);
  expect((await call())[0]).toMatchObject({ "grpc-status": "16" });
  await closed;
  expect(session.closed).toBe(true);
});

test("without a room of its own nothing listens for gRPC", async () => {
  expect((await gatewayOf([])).grpc).toBeUndefined();
});

describe.skipIf(!HAS_OPENSSL)(`TLS${HAS_OPENSSL ? "" : `: ${NO_OPENSSL}`}`, () => {
  test("TLS serves clients that trust its authority and have a key, over TLS only", async () => {
    const certificates = new Certificates();
    onTestFinished(() => certificates.remove());
    certificates.authority("authority");
    certificates.signed("gateway", "authority", "DNS:localhost,IP:127.0.0.1");
    const service = await start({
      tls: { certFile: certificates.file("gateway.pem"), keyFile: certificates.file("gateway.key") },
    });
    const trusting = credentials.createSsl(readFileSync(certificates.file("authority.pem")));
    expect(await callerOf(service, trusting).generate(generateRequest()).ended).toMatchObject({ code: 0 });
    expect(await callerOf(service).generate(generateRequest()).ended).toMatchObject({ code: 14 });
  });
});
