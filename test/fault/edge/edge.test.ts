import { credentials } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { Http1Caller, Http2Caller, rawConnection } from "../../support/edge/edge-caller.ts";
import { type EdgeRig, startEdge } from "../../support/edge/edge-rig.ts";
import { socketThrough } from "../../support/edge/edge-socket.ts";
import { HAS_ENVOY, NO_ENVOY, startEnvoy } from "../../support/edge/envoy-process.ts";
import { NodeClient } from "../../support/engine/node-client.ts";
import { ANSWER_PATHS, bodyFor } from "../../support/http/answer-check.ts";
import { endKindsOf, mostTokens, openStreams } from "../../support/processes/open-streams.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";

/* The Envoy of deploy/envoy with two gateways behind it. */

const CANARY = "canary-7c21";
const STREAMS = 100;

let rig: EdgeRig;
beforeAll(async () => {
  if (HAS_ENVOY) rig = await startEdge({ tokensPerSecond: 10, answerTokens: { min: 200, max: 200 }, slots: 300 });
});
afterAll(async () => {
  await rig?.end();
});

const running = () => rig.engine.metric("svc_engine_running");
const idle = () => becomes(async () => (await rig.engine.busy()) === 0, "no slot is taken");

describe.skipIf(!HAS_ENVOY)(`behind Envoy (${NO_ENVOY})`, () => {
  test("100 streams share one HTTP/2 connection, delta by delta, and cancelled ones end at the engine", async () => {
    const caller = new Http2Caller(rig.edge);
    const short = await openStreams(caller, 3, { fields: mostTokens(30) });
    const leave = new AbortController();
    const long = await openStreams(caller, STREAMS - short.length, { signal: leave.signal });
    // Every stream has had a delta while all still run: no proxy buffers answers.
    expect(long.map(({ status }) => status)).toEqual(long.map(() => 200));
    expect(await running()).toBeGreaterThanOrEqual(long.length);
    expect(caller.opened).toBe(1);
    expect(await endKindsOf(short)).toEqual(short.map(() => "complete"));
    leave.abort();
    await idle();
    caller.close();
  });

  test("gRPC clients reach the gateways, and get their error details", async () => {
    const { port, ca, key } = rig.edge;
    const channel = credentials.createSsl(ca);
    const client = new NodeClient(`127.0.0.1:${port}`, channel, { authorization: `Bearer ${key}` });
    const reading = client.generate(generateRequest({ maxOutputTokens: 3 }));
    expect(await reading.ended).toMatchObject({ code: 0 });
    expect(reading.legal() && reading.finished()).toBe(true);
    const refused = await client.generate(generateRequest({ messages: [] })).ended;
    expect(refused).toMatchObject({ code: 3, info: { reason: "INVALID_REQUEST" } });
    client.close();
    await becomes(async () => rig.envoy.log.some(({ route }) => route === "grpc"), "the edge has a line of it");
    await idle();
  });

  test("a caller that leaves frees its slot, by HTTP/1.1 as well", async () => {
    const caller = new Http1Caller(rig.edge);
    const leave = new AbortController();
    await openStreams(caller, 6, { signal: leave.signal });
    expect(await running()).toBe(6);
    leave.abort();
    await idle();
    caller.close();
  });

  test("both logs name a request by the ids of both, and hold nothing of it", async () => {
    const caller = new Http1Caller(rig.edge);
    for (const path of ANSWER_PATHS) {
      const answer = await caller.post(`${path}?q=${CANARY}`, bodyFor(path, CANARY, mostTokens(2)(path)));
      await answer.text();
      const id = answer.headers.get("x-request-id");
      const lines = () => rig.envoy.log.filter(({ request_id }) => request_id === id);
      await becomes(async () => lines().length === 1, "Envoy has logged the request");
      const line = lines()[0];
      expect(line).toMatchObject({ route: "generate", code: 200, protocol: "HTTP/1.1", response_flags: "-" });
      const logged = () =>
        rig.logged().filter(({ client_request_id }) => client_request_id === line?.client_request_id);
      await becomes(async () => logged().length > 0, "the gateway has logged the request");
      expect(logged().map(({ request_id }) => request_id)).toEqual([id]);
      expect([answer.headers.has("server"), answer.headers.has("x-envoy-upstream-service-time")]).toEqual([
        false,
        false,
      ]);
    }
    expect(JSON.stringify([rig.envoy.log, rig.logged()])).not.toContain(CANARY);
    caller.close();
  });

  test("a header's name or value that could be read in two ways stops here", async () => {
    const refused: string[] = [];
    for (const field of ["content_length: 3", "content-length : 3", "x y: z"]) {
      const socket = await rawConnection(rig.edge);
      socket.write(`GET /v1/models HTTP/1.1\r\nhost: x\r\n${field}\r\n\r\n`);
      const reply = String(await new Promise((resolve) => socket.once("data", resolve)));
      refused.push(reply.slice(0, "HTTP/1.1 400".length));
      socket.destroy();
    }
    expect(refused).toEqual(refused.map(() => "HTTP/1.1 400"));
  });

  test("an upgrade gets the gateway's answer, after which agents use HTTP at once", async () => {
    const upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n";
    const key = `sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nauthorization: Bearer ${rig.edge.key}\r\n`;
    // The second as a base address without `/v1` has it.
    for (const path of ["/v1/chat/completions", "/responses"]) {
      const socket = await rawConnection(rig.edge);
      socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\nuser-agent: codex_exec/0.171.0\r\n${upgrade}${key}\r\n`);
      const reply = String(await new Promise((resolve) => socket.once("data", resolve)));
      expect(reply.slice(0, "HTTP/1.1 426".length)).toBe("HTTP/1.1 426");
      expect(reply).toContain('"code":"upgrade_required"');
      socket.destroy();
    }
  });

  test("a WebSocket passes, closes with 1001 when its gateway stops, and is opened anew on another", async () => {
    const ask = { model: "svc-qwen", input: "Hi.", max_output_tokens: 2 };
    let client = await socketThrough(rig.edge);
    const first = await client.ask(ask);
    expect((await client.ask({ ...ask, previous_response_id: first.id })).status).toBe("incomplete");
    const restarted = rig.restartInTurn();
    for (let restarts = 0; restarts < 2; restarts += 1) {
      expect(await Promise.race([client.closed, restarted])).toBe(1001);
      client = await socketThrough(rig.edge);
      expect((await client.ask({ ...ask, previous_response_id: first.id })).error?.code).toBe(
        "previous_response_not_found",
      );
      expect((await client.ask(ask)).status).toBe("incomplete");
      if (await Promise.race([client.closed.then(() => false), restarted.then(() => true)])) break;
    }
    expect(await restarted).toEqual([0, 0]);
    client.ws.terminate();
  });

  test("a flood from one address is refused in the format's envelope, before a gateway sees a key", async () => {
    const small = "max_tokens: 2, tokens_per_fill: 1, fill_interval: 600s";
    const envoy = await startEnvoy(rig.places, rig.certificates, (config) =>
      config.replace("max_tokens: 400, tokens_per_fill: 200, fill_interval: 1s", small),
    );
    const caller = new Http1Caller({ ...rig.edge, port: envoy.port, key: "none" });
    const before = rig.logged().length;
    const statuses: number[] = [];
    const bodies: unknown[] = [];
    for (const path of ["/v1/messages", "/v1/messages", "/v1/messages", "/v1/chat/completions"]) {
      const answer = await caller.post(path, {});
      statuses.push(answer.status);
      bodies.push(await answer.json());
      if (answer.status === 429) expect(answer.headers.get("retry-after")).toBe("1");
    }
    expect(statuses).toEqual([401, 401, 429, 429]);
    expect(bodies[2]).toMatchObject({ type: "error", error: { type: "rate_limit_error" } });
    expect(bodies[3]).toMatchObject({ error: { type: "requests", code: "rate_limit_exceeded" } });
    // Log lines of some milliseconds are written together.
    const logged = () => rig.logged().length - before;
    await becomes(async () => logged() >= 2, "the gateway has logged what reached it");
    expect(logged()).toBe(2);
    caller.close();
    await envoy.end();
  });

  test("new connections get a renewed certificate, and open ones continue", async () => {
    const { certificates, edge } = rig;
    const caller = new Http2Caller(edge);
    const [stream] = await openStreams(caller, 1);
    certificates.signed("second", "authority", "DNS:localhost,IP:127.0.0.1");
    certificates.show("second");
    await becomes(async () => {
      const socket = await rawConnection(edge);
      const { CN } = socket.getPeerCertificate().subject;
      socket.destroy();
      return CN === "second";
    }, "the new certificate is shown");
    const after = stream?.body.text().length ?? 0;
    await stream?.body.until((text) => text.length > after);
    caller.close();
    await idle();
  });
});
