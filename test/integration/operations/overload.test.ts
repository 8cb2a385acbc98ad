import { afterEach, describe, expect, test } from "vitest";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { gate } from "../../support/gate.ts";
import { type ScriptedService, startScriptedService } from "../../support/gateway/scripted-service.ts";
import { type RunningAdmin, startAdmin } from "../../support/gateway/start-admin.ts";
import { expectErrorA, expectErrorB } from "../../support/http/error-reply.ts";
import { head, RawConnection } from "../../support/http/raw-http.ts";
import { MINIMAL, POST_PATHS, type PostPath } from "../../support/requests/minimal-bodies.ts";
import { until } from "../../support/until.ts";

const CHAT = "/v1/chat/completions";
const COUNT = "/v1/messages/count_tokens";
/** Any process has a heap that is larger. */
const FULL_HEAP = { resourceMonitors: { fixedHeap: { maxHeapSizeBytes: 1 } }, refreshIntervalMs: 50 };
const OFF = { eventLoopDelay: null, fixedHeap: null, inflightBodyBytes: null };

const running: { stop(): Promise<void> }[] = [];

afterEach(async () => {
  for (const one of running.splice(0).reverse()) await one.stop();
});

async function serviceUnder(overloadManager: object): Promise<ScriptedService> {
  const service = await startScriptedService({ gateway: { overloadManager } });
  running.push(service);
  return service;
}

async function adminOf(service: ScriptedService): Promise<RunningAdmin> {
  const admin = await startAdmin(service.gateway);
  running.push(admin);
  return admin;
}

const isB = (path: PostPath) => path.startsWith("/v1/messages");

async function expectShed(path: PostPath, response: Response): Promise<void> {
  const seconds = Number(response.headers.get("retry-after"));
  expect([1, 2, 3]).toContain(seconds);
  if (isB(path)) await expectErrorB(response, 529, "overloaded_error");
  else await expectErrorA(response, 503, "server_is_overloaded", null);
}

describe("a process in trouble", () => {
  test("turns new requests away in every envelope, finishes what it began, and its admin goes on", async () => {
    const { passed, open } = gate();
    const service = await serviceUnder({
      ...FULL_HEAP,
      refreshIntervalMs: 400,
      actions: { disableHttpKeepalive: OFF, rejectNonCritical: OFF },
    });
    service.play(async function* () {
      yield [started(), textStart(0), delta(0, "held ")];
      await passed;
      yield [delta(0, "to the end"), blockEnd(0), finished()];
    });
    const admitted = await service.post(CHAT, { stream: true });
    expect(admitted.status).toBe(200);
    const { overload } = service.gateway;
    await until(() => overload.isActive("stopAcceptingRequests"), "the gateway sheds");
    for (const path of POST_PATHS) await expectShed(path, await service.post(path));
    expect((await service.gateway.get("/v1/models")).status).toBe(503);
    expect((await service.gateway.get("/v1/models", { authorization: "Bearer nobody" })).status).toBe(401);
    const admin = await adminOf(service);
    expect((await admin.get("/ready")).status).toBe(200);
    const stats = await (await admin.get("/stats?filter=overload")).text();
    expect(stats).toContain('svc_overload_action_active{action="stop_accepting_requests"} 1');
    expect(stats).toContain('svc_overload_action_active{action="disable_http_keepalive"} 0');
    open();
    expect(await admitted.text()).toContain("to the end");
    const line = service.gateway.log.find((one) => one.includes("overload_stop_accepting_requests"));
    expect(JSON.parse(line ?? "")).toMatchObject({ response_flags: "OM", detail: "overload_stop_accepting_requests" });
  });

  test("turns away first what can wait: counting, and keys of low priority", async () => {
    const actions = { disableHttpKeepalive: OFF, stopAcceptingRequests: OFF };
    const service = await serviceUnder({ ...FULL_HEAP, actions, refreshIntervalMs: 1_000 });
    const low = await service.createKey("--name", "low", "--models", "all", "--priority", "LOW");
    const { overload } = service.gateway;
    await until(() => overload.isActive("rejectNonCritical"), "the gateway sheds");
    await expectShed(COUNT, await service.post(COUNT));
    await expectShed(CHAT, await service.post(CHAT, {}, { authorization: `Bearer ${low}` }));
    expect((await service.post(CHAT)).status).toBe(200);
  });

  test("gives up its connections, streams' ones too", async () => {
    const service = await serviceUnder({
      ...FULL_HEAP,
      actions: { rejectNonCritical: OFF, stopAcceptingRequests: OFF },
    });
    const connectionOf = (response: Response) => response.headers.get("connection");
    await until(() => service.gateway.overload.isActive("disableHttpKeepalive"), "the gateway sheds");
    expect(connectionOf(await service.gateway.get("/v1/models"))).toBe("close");
    const streamed = await service.post(CHAT, { stream: true });
    expect([streamed.status, connectionOf(streamed)]).toEqual([200, "close"]);
    expect(await streamed.text()).toContain("[DONE]");
  });

  test("charges nobody for what it turned away", async () => {
    const service = await serviceUnder({
      ...FULL_HEAP,
      refreshIntervalMs: 1_000,
      actions: { disableHttpKeepalive: OFF, rejectNonCritical: OFF },
    });
    const key = await service.createKey("--name", "limited", "--models", "all", "--rpm", "1");
    await until(() => service.gateway.overload.isActive("stopAcceptingRequests"), "the gateway sheds");
    const statuses = [];
    for (let at = 0; at < 3; at += 1) {
      const response = await service.post(CHAT, {}, { authorization: `Bearer ${key}` });
      await response.text();
      statuses.push(response.status);
    }
    expect(statuses).toEqual([503, 503, 503]);
  });
});

describe("bodies on their way", () => {
  const ROOM = 64 * 1024;
  const upload = (service: ScriptedService, ...fields: readonly string[]) => {
    const auth = `authorization: Bearer ${service.gateway.key}`;
    return head(`POST ${CHAT} HTTP/1.1`, "host: gateway.test", auth, "content-type: application/json", ...fields);
  };
  const held = async (service: ScriptedService, bytes: number) => {
    const { bodies } = service.gateway.overload;
    const before = bodies.bytes;
    const connection = await RawConnection.open(service.gateway.port);
    connection.write(upload(service, `content-length: ${bytes + 1}`)).write(" ".repeat(bytes));
    await until(() => bodies.bytes === before + bytes, "the body is counted");
    return connection;
  };

  test("have one room together; what does not fit is refused before it is read, and what was announced takes none", async () => {
    const off = { disableHttpKeepalive: OFF, rejectNonCritical: OFF, stopAcceptingRequests: OFF };
    const service = await serviceUnder({ resourceMonitors: { inflightBodyBytes: { maxBytes: ROOM } }, actions: off });
    const { bodies } = service.gateway.overload;
    // Whoever only announces takes no room.
    const silent = await RawConnection.open(service.gateway.port);
    silent.write(upload(service, `content-length: ${ROOM}`));
    const slow = await held(service, ROOM - 1_000);
    const late = await RawConnection.open(service.gateway.port);
    const refused = await late.write(upload(service, "content-length: 1001")).reply();
    expect([refused.status, refused.headers.get("connection")]).toEqual([503, "close"]);
    expect(refused.body).toContain('"code":"server_is_overloaded"');
    const chunked = await RawConnection.open(service.gateway.port);
    chunked.write(upload(service, "transfer-encoding: chunked")).write(`400\r\n${" ".repeat(1024)}\r\n`);
    expect((await chunked.reply()).status).toBe(503);
    expect((await service.post(CHAT)).status).toBe(200);
    const admin = await adminOf(service);
    expect(await (await admin.get("/stats?filter=inflight")).text()).toMatch(/^svc_inflight_body_bytes 64536$/m);
    slow.destroy();
    await until(() => bodies.bytes === 0, "the room is free");
    for (const one of [silent, late, chunked]) one.destroy();
    expect((await service.post(CHAT, { ...MINIMAL[CHAT], x: "x".repeat(ROOM - 2_000) })).status).toBe(200);
    expect(bodies.bytes).toBe(0);
  });
});
