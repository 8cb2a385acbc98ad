import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ClientOptions, WebSocket } from "ws";
import { becomes } from "../../support/becomes.ts";
import { Certificates, HAS_OPENSSL, NO_OPENSSL } from "../../support/certificates.ts";
import { textAnswer } from "../../support/events/events.ts";
import { type ScriptedService, startScriptedService } from "../../support/gateway/scripted-service.ts";
import { ANSWER_PATHS, endOf } from "../../support/http/answer-check.ts";
import { FrameClient } from "../../support/http/frame-client.ts";
import { latch } from "../../support/latch.ts";
import { MINIMAL } from "../../support/requests/minimal-bodies.ts";
import { until } from "../../support/until.ts";

/* The public API with its own TLS, as without an edge proxy. */

const certificates = new Certificates();
const file = (name: string) => certificates.file(name);
let service: ScriptedService;
let guarded: ScriptedService;

beforeAll(async () => {
  if (!HAS_OPENSSL) return;
  for (const name of ["authority", "stranger"]) certificates.authority(name);
  for (const name of ["first", "second", "caller"]) certificates.signed(name, "authority");
  certificates.signed("intruder", "stranger");
  certificates.show("first");
  const tls = { certFile: file("live.pem"), keyFile: file("live.key") };
  service = await startScriptedService({ gateway: { listen: { port: 0, tls } } });
  const both = { ...tls, clientCaFile: file("authority.pem") };
  guarded = await startScriptedService({ gateway: { listen: { port: 0, tls: both } } });
});

afterAll(async () => {
  await service?.stop();
  await guarded?.stop();
  certificates.remove();
});

async function begin({ gateway }: ScriptedService, path: keyof typeof MINIMAL, who?: string) {
  const headers = { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" };
  const agent = new Agent({ ...certificates.client(who), keepAlive: true });
  const sent = request(`${gateway.baseUrl}${path}`, { method: "POST", headers, agent });
  sent.end(JSON.stringify({ ...MINIMAL[path], stream: true }));
  const [reply] = (await once(sent, "response")) as [IncomingMessage];
  return { reply, agent, socket: reply.socket as TLSSocket };
}

async function spokenTo({ gateway }: ScriptedService, bytes: string): Promise<string> {
  const socket = connect(gateway.port, "127.0.0.1");
  let text = "";
  socket
    .on("error", () => {})
    .on("data", (piece) => {
      text += piece.toString("latin1");
    });
  socket.write(bytes);
  await new Promise((resolve) => socket.once("close", resolve));
  return text;
}

describe.skipIf(!HAS_OPENSSL)(`a public listener with TLS (${NO_OPENSSL})`, () => {
  test.each(ANSWER_PATHS)("a public listener with TLS streams %s", async (path) => {
    const { reply, agent } = await begin(service, path);
    expect(reply.statusCode).toBe(200);
    expect(endOf(path, await text(reply), false).end).toBe("complete");
    agent.destroy();
  });

  test("a public listener with TLS accepts WebSockets", async () => {
    const options: ClientOptions = {
      headers: { authorization: `Bearer ${service.gateway.key}` },
      ...certificates.client(),
    };
    const ws = new WebSocket(`${service.gateway.baseUrl.replace("https", "wss")}/v1/responses`, options);
    const client = new FrameClient(ws);
    await once(ws, "open");
    expect((await client.ask({ model: "svc-qwen", input: "Hi." })).output_text).toBe("Hello.");
    await client.close();
    await becomes(async () => service.gateway.webSockets.open === 0, "the socket has ended");
  });

  test("a public listener with TLS refuses plain text", async () => {
    expect(await spokenTo(service, "GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")).not.toContain("HTTP");
  });

  test("a public listener with TLS answers bytes that are not HTTP in an envelope", async () => {
    const socket = connectTls({ ...trusting(), port: service.gateway.port });
    socket.write("no HTTP at all\r\n\r\n");
    expect(await text(socket)).toMatch(/400 Bad Request(.|\s)*\{"error":/);
  });

  test("a public listener with TLS refuses connections without a certificate if it requires one", async () => {
    await expect(begin(guarded, "/v1/messages")).rejects.toThrow();
    await expect(begin(guarded, "/v1/messages", "intruder")).rejects.toThrow();
    const { reply, agent } = await begin(guarded, "/v1/messages", "caller");
    expect(reply.statusCode).toBe(200);
    await text(reply);
    agent.destroy();
  });

  test("a public listener with TLS uses a renewed certificate for new connections, and open ones continue", async () => {
    const goOn = halfAnswered();
    const running = await begin(service, "/v1/chat/completions");
    expect(running.socket.getPeerCertificate().subject.CN).toBe("first");
    certificates.show("second");
    await becomes(async () => (await shownNow()) === "second", "the new certificate is shown");
    goOn.open();
    expect(endOf("/v1/chat/completions", await text(running.reply), false).end).toBe("complete");
    running.agent.destroy();
  });

  test("a public listener with TLS drains: idle and unfinished connections close at once, the others after their reply", async () => {
    const { sockets } = service.gateway;
    const goOn = halfAnswered();
    const running = await begin(service, "/v1/messages");
    const idle = connectTls({ ...trusting(), port: service.gateway.port });
    const silent = connect(service.gateway.port, "127.0.0.1");
    await Promise.all([once(idle, "secureConnect"), once(silent, "connect")]);
    await until(() => sockets.open === 3 && sockets.idle === 2, "all connections are known");
    const closed = Promise.all([once(idle.resume(), "close"), once(silent.resume(), "close")]);
    const drained = sockets.drain();
    await closed;
    expect(sockets).toMatchObject({ open: 1, idle: 0 });
    goOn.open();
    expect(endOf("/v1/messages", await text(running.reply), false).end).toBe("complete");
    await drained;
    expect(sockets.open).toBe(0);
    running.agent.destroy();
  });
});

function halfAnswered() {
  const goOn = latch();
  service.play(async function* () {
    const [first, ...rest] = textAnswer("Half ", "an answer.");
    yield first ? [first] : [];
    yield rest.slice(0, 2);
    await goOn.passed;
    yield rest.slice(2);
  });
  return goOn;
}

async function shownNow(): Promise<string> {
  const socket = connectTls({ ...trusting(), port: service.gateway.port });
  await once(socket, "secureConnect");
  const { CN } = socket.getPeerCertificate().subject;
  socket.destroy();
  return String(CN);
}

const trusting = () => ({ host: "127.0.0.1", ...certificates.client() });
