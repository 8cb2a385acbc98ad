import { once } from "node:events";
import {
  type ClientHttp2Session,
  connect,
  constants,
  createServer,
  type OutgoingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { Registry } from "prom-client";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WastedCalls, type WastedCallsDeps } from "../../../gateway/grpc/wasted-calls.ts";
import { Stats } from "../../../gateway/stats/stats.ts";
import { startScriptedService } from "../../support/gateway/scripted-service.ts";
import { until } from "../../support/until.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

/* Callers that waste calls: those that they reset, and refused ones. */

const AT_ONCE = 1_000;
/** Node 20 closes a connection with more resets. */
const RESETS_OF_CONNECTION = 500;
const EXHAUSTED = "8";
const UNAVAILABLE = "14";

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** The server's handler of a call that has passed the guard. */
let play: (stream: ServerHttp2Stream) => void;
let clock: VirtualClock;
let wasted: WastedCalls;
let port: number;
let came: number;
let aborted: number;
const sessions: ServerHttp2Session[] = [];

beforeEach(async () => {
  clock = new VirtualClock();
  wasted = new WastedCalls({
    keys: { find: (key: string) => (key.startsWith("token") ? undefined : { keyId: key }) } as WastedCallsDeps["keys"],
    log: pino({ level: "silent" }),
    stats: new Stats(new Registry()),
    clock,
  });
  [came, aborted] = [0, 0];
  play = answer("0");
  const server = createServer();
  server.on("session", (session) => sessions.push(session));
  server.on("stream", (stream) => {
    came += 1;
    stream.on("error", () => {});
    stream.on("aborted", () => {
      aborted += 1;
    });
    stream.resume();
    play(stream);
  });
  wasted.guard(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  ({ port } = server.address() as AddressInfo);
  closing.push(() => {
    for (const session of sessions.splice(0)) session.destroy();
    server.close();
  });
});

function answer(status: string): typeof play {
  return (stream) => stream.respond({ ":status": 200, "grpc-status": status }, { endStream: true });
}

function session(): ClientHttp2Session {
  const made = connect(`http://127.0.0.1:${port}`);
  made.on("error", () => {});
  closing.push(() => made.destroy());
  return made;
}

const keyOf = (key: string) => ({ authorization: `Bearer ${key}` });

async function statusOf(on: ClientHttp2Session, headers: OutgoingHttpHeaders): Promise<unknown> {
  if (on.closed) return undefined;
  const stream = on.request({ ":method": "POST", ":path": "/", ...headers }, { endStream: true });
  let status: unknown;
  stream.on("error", () => {});
  stream.on("response", (answered) => {
    status = answered["grpc-status"];
  });
  stream.resume();
  await new Promise((resolve) => stream.once("close", resolve));
  return status;
}

async function many(on: ClientHttp2Session, headers: OutgoingHttpHeaders): Promise<ReadonlySet<unknown>> {
  const found = new Set<unknown>();
  for (let at = 0; at < AT_ONCE; at += 250)
    for (const status of await Promise.all(Array.from({ length: 250 }, () => statusOf(on, headers)))) found.add(status);
  return found;
}

async function manyResets(headers: OutgoingHttpHeaders): Promise<void> {
  play = () => {};
  for (let sent = 0; sent < AT_ONCE; sent += RESETS_OF_CONNECTION) {
    const on = session();
    await once(on, "connect");
    for (let at = 0; at < RESETS_OF_CONNECTION; at += 50) {
      const streams = Array.from({ length: 50 }, () => on.request({ ":method": "POST", ":path": "/", ...headers }));
      await until(() => came === sent + at + 50, "all have come");
      for (const stream of streams) {
        stream.on("error", () => {});
        stream.close(constants.NGHTTP2_CANCEL);
      }
      await until(() => aborted === came, "all are reset");
    }
  }
  play = answer("0");
}

test("G8 a key with too many reset calls is refused, loses its connection, and is served again later", async () => {
  await manyResets(keyOf("flood"));
  const on = session();
  expect(await statusOf(on, keyOf("flood"))).toBe(EXHAUSTED);
  await until(() => on.destroyed, "the connection ends");
  expect(came).toBe(AT_ONCE);
  const later = session();
  expect(await statusOf(later, keyOf("honest"))).toBe("0");
  await clock.advance(5);
  expect(await statusOf(later, keyOf("flood"))).toBe("0");
});

test("refused calls count as wasted, but not for other connections that present the same text", async () => {
  const [on, other] = [session(), session()];
  const beside = { "x-api-key": "token of another service" };
  play = answer(EXHAUSTED);
  await many(on, { ...keyOf("flood"), ...beside });
  expect(came).toBe(AT_ONCE);
  expect(await statusOf(on, { ...keyOf("flood"), "x-api-key": "token x" })).toBe(EXHAUSTED);
  expect(came).toBe(AT_ONCE);
  play = answer("0");
  expect(await statusOf(other, { ...keyOf("honest"), ...beside })).toBe("0");
});

test("a token counts by its text until it is verified, then by its principal on all connections", async () => {
  const on = session();
  await once(on, "connect");
  await until(() => sessions.length === 1, "the server has it, too");
  play = (stream) => {
    for (const server of sessions) wasted.hasKey(server, "owner");
    answer(EXHAUSTED)(stream);
  };
  const token = (at: number) => ({ ...keyOf("token"), "x-api-key": `token beside ${at}` });
  await statusOf(on, token(0));
  await many(on, token(1));
  const again = session();
  await once(again, "connect");
  await until(() => sessions.length === 2, "the server has both");
  expect(await statusOf(again, token(2))).toBe(EXHAUSTED);
  expect(came).toBe(AT_ONCE + 2);
  expect(await statusOf(again, token(3))).toBe(EXHAUSTED);
  expect(came).toBe(AT_ONCE + 2);
});

test("calls that end well or fail by an engine's fault are none that were wasted", async () => {
  const on = session();
  expect(await many(on, keyOf("busy"))).toEqual(new Set(["0"]));
  play = answer(UNAVAILABLE);
  expect(await many(on, keyOf("busy"))).toEqual(new Set([UNAVAILABLE]));
  play = answer("0");
  expect(await statusOf(on, keyOf("busy"))).toBe("0");
});

test("a connection with calls of several keys stays open when one key is refused", async () => {
  const on = session();
  await once(on, "connect");
  await until(() => sessions.length === 1, "the server has it, too");
  for (const [at, server] of sessions.entries())
    for (const key of ["flood", `honest ${at}`]) wasted.hasKey(server, key);
  play = answer(EXHAUSTED);
  await many(on, keyOf("flood"));
  play = answer("0");
  expect(await statusOf(on, keyOf("flood"))).toBe(EXHAUSTED);
  expect(await statusOf(on, keyOf("honest"))).toBe("0");
});

test("calls without a key are counted by their connection", async () => {
  const [on, other] = [session(), session()];
  play = answer("16");
  await many(on, {});
  expect(await statusOf(on, {})).toBe(EXHAUSTED);
  await until(() => on.destroyed, "the connection ends");
  play = answer("0");
  expect(await statusOf(other, {})).toBe("0");
});

test("G8 a key that keeps calling despite its limits loses its connection, and is logged", async () => {
  const service = await startScriptedService({ gateway: { grpc: { port: 0 } } });
  closing.push(() => service.stop());
  const key = await service.createKey("--name", "flood", "--models", "all", "--rpm", "1");
  port = Number(service.gateway.grpcAddress.split(":")[1]);
  const on = session();
  const path = "/svc.inference.v1.InferenceService/Generate";
  const headers = { ":path": path, "content-type": "application/grpc", ...keyOf(key) };
  for (let at = 0; at < 20 && !on.closed; at += 1) await many(on, headers);
  expect(on.closed).toBe(true);
  const line = service.gateway.log.map((each) => JSON.parse(each)).find(({ msg }) => /^calls are refused/.test(msg));
  expect(line).toMatchObject({ key_id: service.gateway.keys.find(key)?.keyId, calls: 1 });
  expect((await service.gateway.get("/v1/models")).status).toBe(200);
}, 60_000);
