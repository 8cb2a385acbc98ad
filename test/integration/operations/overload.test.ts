import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { OverloadAction, OverloadManager } from "../../../gateway/overload/overload-manager.ts";
import { becomes } from "../../support/becomes.ts";
import { ResumableNode, stepsOf } from "../../support/engine/resumable-node.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { gatewayOf } from "../../support/gateway/own-services.ts";
import { type ScriptedService, startScriptedService } from "../../support/gateway/scripted-service.ts";
import { type RunningAdmin, startAdmin } from "../../support/gateway/start-admin.ts";
import { expectErrorA, expectErrorB } from "../../support/http/error-reply.ts";
import { head, RawConnection } from "../../support/http/raw-http.ts";
import { latch } from "../../support/latch.ts";
import { MINIMAL, POST_PATHS, type PostPath } from "../../support/requests/minimal-bodies.ts";
import { until } from "../../support/until.ts";

const CHAT = "/v1/chat/completions";

/** Has an action in force, whatever the resources of this process. */
function force(overload: OverloadManager, forced: OverloadAction): void {
  vi.spyOn(overload, "isActive").mockImplementation((action) => action === forced);
}

async function serviceUnder(overloadManager: object = {}): Promise<ScriptedService> {
  const service = await startScriptedService({ gateway: { overloadManager } });
  onTestFinished(() => service.stop());
  return service;
}

async function adminOf(service: ScriptedService): Promise<RunningAdmin> {
  const admin = await startAdmin(service.gateway);
  onTestFinished(() => admin.stop());
  return admin;
}

const isB = (path: PostPath) => path.startsWith("/v1/messages");

async function expectShed(path: PostPath, response: Response): Promise<void> {
  const seconds = Number(response.headers.get("retry-after"));
  expect([1, 2, 3]).toContain(seconds);
  if (isB(path)) await expectErrorB(response, 529, "overloaded_error");
  else await expectErrorA(response, 503, "server_is_overloaded", null);
}

describe("answers that are kept for another engine", () => {
  async function answering(settings: object) {
    const node = await ResumableNode.start({ steps: stepsOf(textStart(0), "kept ", "text"), stopAfter: () => 2 });
    onTestFinished(() => node.node.stop());
    const clusters = [{ model: "svc-qwen", endpoints: [{ address: node.address }] }];
    const gateway = await gatewayOf([], { clusters, ...settings });
    const response = await gateway.post(CHAT, { ...MINIMAL[CHAT], model: "svc-qwen", stream: true });
    await until(() => node.standing > 0, "the answer is under way");
    const said = (text: string) => gateway.log.filter((line) => line.includes(text));
    return { node, gateway, response, said };
  }

  test("answers that are kept for another engine are let go of while memory is short, which is said without a word of theirs", async () => {
    const { node, gateway, response, said } = await answering({});
    force(gateway.overload, "releaseKeptAnswers");
    await until(() => said("kept answers were dropped").length > 0, "it is said");
    node.node.stop();
    await response.text().catch(() => {});
    await until(() => said('"not_kept":"released"').length > 0, "the access log says it");
    expect(JSON.parse(said("kept answers were dropped")[0] ?? "")).toMatchObject({ answers: 1, kept: 0, bytes: 0 });
    expect(said("kept text")).toEqual([]);
  });

  test("answers that are kept for another engine are logged when there is no room for them", async () => {
    const { node, gateway, response, said } = await answering({ continuation: { maxBytes: 1 } });
    expect(JSON.parse(said("continuation.maxBytes is used up")[0] ?? "")).toMatchObject({
      times: 1,
      kept: 0,
      maxBytes: 1,
    });
    await gateway.post(CHAT, { ...MINIMAL[CHAT], model: "svc-qwen", stream: true });
    expect(said("continuation.maxBytes is used up")).toHaveLength(1);
    node.node.stop();
    await response.text().catch(() => {});
  });
});

describe("a process in trouble", () => {
  test("a process in trouble refuses new requests in every envelope, finishes running ones, and its admin port answers", async () => {
    const { passed, open } = latch();
    const service = await serviceUnder();
    service.play(async function* () {
      yield [started(), textStart(0), delta(0, "held ")];
      await passed;
      yield [delta(0, "to the end"), blockEnd(0), finished()];
    });
    const admitted = await service.post(CHAT, { stream: true });
    expect(admitted.status).toBe(200);
    force(service.gateway.overload, "stopAcceptingRequests");
    for (const path of POST_PATHS) await expectShed(path, await service.post(path));
    expect((await service.gateway.get("/v1/models")).status).toBe(503);
    expect((await service.gateway.get("/v1/models", { authorization: "Bearer unknown" })).status).toBe(401);
    const admin = await adminOf(service);
    expect((await admin.get("/ready")).status).toBe(200);
    const stats = await admin.text("/stats?filter=overload");
    expect(stats).toContain('svc_overload_action_active{action="stop_accepting_requests"} 1');
    expect(stats).toContain('svc_overload_action_active{action="release_kept_answers"} 0');
    open();
    expect(await admitted.text()).toContain("to the end");
    const line = service.gateway.log.find((one) => one.includes("overload_stop_accepting_requests"));
    expect(JSON.parse(line ?? "")).toMatchObject({ response_flags: "OM", detail: "overload_stop_accepting_requests" });
  });

  test("a process in trouble charges no key for a refused request", async () => {
    const service = await serviceUnder();
    const key = await service.createKey("--name", "limited", "--models", "all", "--rpm", "1");
    force(service.gateway.overload, "stopAcceptingRequests");
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
  const ROOM = 256 * 1024;
  const serviceWaiting = async (maxWaitMs: number) => {
    const service = await serviceUnder({ resourceMonitors: { inflightBodyBytes: { maxBytes: ROOM } } });
    Object.assign(service.gateway.overload.bodies, { maxWaitMs });
    return service;
  };
  const upload = (key: string, path: PostPath, ...fields: readonly string[]) => {
    const auth = `authorization: Bearer ${key}`;
    return head(`POST ${path} HTTP/1.1`, "host: gateway.test", auth, "content-type: application/json", ...fields);
  };
  const keyOf = (service: ScriptedService, name: string) => service.createKey("--name", name, "--models", "all");
  const held = async (service: ScriptedService, key: string, bytes: number) => {
    const { bodies } = service.gateway.overload;
    const before = bodies.bytes;
    const connection = await RawConnection.open(service.gateway.port);
    connection.write(upload(key, CHAT, `content-length: ${bytes}`)).write(" ".repeat(bytes - 1));
    await until(() => bodies.bytes === before + bytes, "the body is counted");
    return connection;
  };
  const announced = async (service: ScriptedService, key: string, bytes: number, path: PostPath = CHAT) => {
    const connection = await RawConnection.open(service.gateway.port);
    return connection.write(upload(key, path, `content-length: ${bytes}`));
  };

  test("bodies on their way share one budget: bodies without room in time are refused unread, and small ones pass", async () => {
    const service = await serviceWaiting(200);
    const { bodies } = service.gateway.overload;
    const [one, other, late] = [service.gateway.key, await keyOf(service, "other"), await keyOf(service, "late")];
    const full = [await held(service, one, ROOM / 2), await held(service, other, ROOM / 2 - 4_000)];
    for (const [path, status] of [
      [CHAT, 503],
      ["/v1/messages", 529],
    ] as const) {
      const refused = await (await announced(service, late, 100_000, path)).reply();
      expect([refused.status, refused.headers.get("connection")]).toEqual([status, "close"]);
      expect([1, 2, 3]).toContain(Number(refused.headers.get("retry-after")));
    }
    const chunked = await RawConnection.open(service.gateway.port);
    chunked.write(upload(late, CHAT, "transfer-encoding: chunked")).write(`1400\r\n${" ".repeat(5_120)}\r\n`);
    expect((await chunked.reply()).status).toBe(503);
    expect((await service.post(CHAT, {}, { authorization: `Bearer ${late}` })).status).toBe(200);
    const admin = await adminOf(service);
    expect(await admin.text("/stats?filter=inflight")).toMatch(
      new RegExp(`^svc_inflight_body_bytes ${ROOM - 4_000}$`, "m"),
    );
    for (const one of full) one.destroy();
    await until(() => bodies.bytes === 0, "the room is free");
    chunked.destroy();
    expect((await service.post(CHAT, { ...MINIMAL[CHAT], x: "x".repeat(ROOM - 2_000) })).status).toBe(200);
    expect(bodies.bytes).toBe(0);
  });

  test("bodies on their way wait unread for those before them, and are answered then", async () => {
    const service = await serviceWaiting(30_000);
    const { bodies } = service.gateway.overload;
    const slow = await held(service, service.gateway.key, ROOM / 2);
    const text = JSON.stringify({ ...MINIMAL[CHAT], x: "x".repeat(100_000) });
    const waiting = service.post(CHAT, JSON.parse(text));
    await until(() => bodies.waiting === 1, "it waits");
    expect(bodies.bytes).toBe(ROOM / 2);
    const admin = await adminOf(service);
    expect(await admin.text("/stats?filter=waiting")).toMatch(/^svc_inflight_bodies_waiting 1$/m);
    slow.destroy();
    expect((await waiting).status).toBe(200);
    expect([bodies.waiting, bodies.bytes]).toEqual([0, 0]);
  });

  test("bodies on their way leave a share to other keys, and a key without a share gets 429", async () => {
    const service = await serviceWaiting(200);
    const { key } = service.gateway;
    const first = await held(service, key, ROOM / 2);
    for (const [path, type] of [
      [CHAT, "requests"],
      ["/v1/messages", "rate_limit_error"],
    ] as const) {
      const refused = await (await announced(service, key, 100_000, path)).reply();
      expect([refused.status, JSON.parse(refused.body).error.type]).toEqual([429, type]);
      expect([1, 2, 3]).toContain(Number(refused.headers.get("retry-after")));
    }
    const other = await keyOf(service, "other");
    const big = { ...MINIMAL[CHAT], x: "x".repeat(100_000) };
    expect((await service.post(CHAT, big, { authorization: `Bearer ${other}` })).status).toBe(200);
    first.destroy();
  });

  test("bodies on their way count until no engine needs them: a stream's until its first delta, a folded answer's until its end", async () => {
    const { passed: mayBegin, open: begin } = latch();
    const { passed: mayEnd, open: end } = latch();
    const service = await serviceWaiting(30_000);
    service.play(async function* () {
      yield [started()];
      await mayBegin;
      yield [textStart(0), delta(0, "held ")];
      await mayEnd;
      yield [delta(0, "to the end"), blockEnd(0), finished()];
    });
    const { bodies } = service.gateway.overload;
    const big = { ...MINIMAL[CHAT], messages: [{ role: "user", content: "x".repeat(100_000) }] };
    const other = await keyOf(service, "other");
    const streamed = service.post(CHAT, { ...big, stream: true });
    const folded = service.post(CHAT, big, { authorization: `Bearer ${other}` });
    await until(() => service.engine.backend.requests.length === 2, "the engine has both");
    const both = bodies.bytes;
    expect(both).toBeGreaterThan(200_000);
    begin();
    await until(() => bodies.bytes < both, "the stream has begun");
    expect(bodies.bytes).toBeGreaterThan(100_000);
    end();
    expect([(await streamed).status, (await folded).status]).toEqual([200, 200]);
    expect(await (await streamed).text()).toContain("to the end");
    await until(() => bodies.bytes === 0, "both are over");
  });
});

test("a connection beyond the limit is closed without a reply, counted and logged once", async () => {
  const resourceMonitors = { globalDownstreamMaxConnections: { maxActiveDownstreamConnections: 3 } };
  const service = await serviceUnder({ resourceMonitors });
  const { gateway } = service;
  const admin = await adminOf(service);
  const open = await Promise.all(Array.from({ length: 3 }, () => RawConnection.open(gateway.port)));
  await until(() => gateway.log.some((line) => line.includes('"maxConnections":3')), "the limit is said at the start");
  for (let at = 0; at < 5; at += 1) {
    const refused = await RawConnection.open(gateway.port);
    await refused.untilClosed();
    expect(refused.unread).toBe("");
  }
  expect(await admin.text("/stats?filter=cx_overflow")).toMatch(/^svc_downstream_cx_overflow_total 5$/m);
  expect(gateway.log.filter((line) => line.includes("connections are refused"))).toHaveLength(1);
  expect((await admin.get("/ready")).status).toBe(200);
  open[0]?.destroy();
  const served = async () => (await gateway.get("/v1/models").catch(() => undefined))?.status === 200;
  await becomes(served, "there is room again");
  for (const one of open) one.destroy();
});
