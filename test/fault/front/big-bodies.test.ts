import { request } from "node:http";
import { connect, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { Fleet } from "../../support/processes/fleet.ts";
import type { GatewayProcess } from "../../support/processes/gateway-process.ts";
import { memoryOf } from "../../support/processes/processes-with.ts";
import { sizeOf } from "../../support/size.ts";

/* Many large bodies at once, of one key, beside others: the memory of the gateway, and the refusals per key. */

const CHAT = "/v1/chat/completions";
const MB = 1_000_000;
const BODIES = sizeOf({ quick: 12, promised: 30 });
const BODY_BYTES = sizeOf({ quick: 8, promised: 33 }) * MB;
/** The answers that stream at a time, each for a body of 8 MB. */
const STREAMS = sizeOf({ quick: 16, promised: 24 });
/** The most memory beside that of an idle process, which is larger by 50 MB on Node 24. */
const MOST_BYTES = sizeOf({ quick: 250, promised: 800 }) * MB;
/** Memory that may remain when all bodies are freed: V8 tolerates 64 MB outside its heap until it collects next. */
const LEFT_BYTES = 80 * MB;
/** Otherwise the memory of the machine decides. */
const ROOM = sizeOf({ quick: 64, promised: 512 }) * MB;

const fleet = new Fleet();

function upload(front: GatewayProcess, body: Buffer): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${front.key}`,
      "content-type": "application/json",
      "content-length": body.length,
    };
    const sent = request({ port: front.port, path: CHAT, method: "POST", headers, agent: false }, (response) => {
      response
        .resume()
        .once("close", () => resolve(response.statusCode))
        .on("error", () => {});
    });
    sent.once("error", reject).end(body);
  });
}

async function ready(front: GatewayProcess): Promise<GatewayProcess> {
  await becomes(async () => (await fetch(`${front.adminUrl}/ready`)).ok, "the gateway is ready");
  return front;
}

async function frontWith(backend: object): Promise<GatewayProcess> {
  const { address } = await fleet.engine("big", backend);
  const overloadManager = { resourceMonitors: { inflightBodyBytes: { maxBytes: ROOM } } };
  // Kept answers have a limit of their own.
  return ready(await fleet.gateway({ endpoints: [{ address }] }, { overloadManager, continuation: { maxBytes: 0 } }));
}

const bodyOf = (bytes: number, fields: object = {}) =>
  Buffer.from(
    JSON.stringify({ model: "svc-qwen", ...fields, messages: [{ role: "user", content: "word ".repeat(bytes / 5) }] }),
  );

describe.runIf(process.platform === "linux")("many big bodies at once", () => {
  test("many big bodies at once keep memory bounded, release it, and affect neither nodes nor other callers", async () => {
    // Too long for the window, but not certainly so for the gateway: tokens have 4 characters, and 12 bytes at most.
    const front = await frontWith({ contextTokens: BODY_BYTES / 8 });
    const other = await front.createKey("--name", "other", "--models", "all");
    const ask = async () => (await front.post(CHAT, JSON.parse(String(bodyOf(5))), undefined, other)).status;
    for (let at = 0; at < 100; at += 1) expect(await ask()).toBe(200);
    const before = memoryOf(front.process.child.pid);

    const body = bodyOf(BODY_BYTES);
    let over = false;
    const others = (async () => {
      const statuses: number[] = [];
      while (!over) statuses.push(await ask());
      return statuses;
    })();
    const statuses = await Promise.all(Array.from({ length: BODIES }, () => upload(front, body)));
    over = true;

    // The prompt exceeds the window; a request that waited too long for room may be retried.
    for (const status of statuses) expect([400, 429, 503]).toContain(status);
    expect(statuses).toContain(400);
    expect(new Set(await others)).toEqual(new Set([200]));
    expect(await front.stat("svc_cluster_membership_healthy")).toBe(1);
    expect(await front.stat("svc_cluster_outlier_ejections_total")).toBe(0);
    expect(memoryOf(front.process.child.pid, "VmHWM")).toBeLessThan(before + MOST_BYTES);
    // V8 collects while there is work.
    const isFreed = async () => (await ask()) === 200 && memoryOf(front.process.child.pid) < before + LEFT_BYTES;
    await becomes(isFreed, "the memory is given back");
  });

  test("many big bodies at once are freed while their answers stream", async () => {
    const tokens = 100_000_000;
    const front = await frontWith({
      ...{ tokensPerSecond: 1, answerTokens: { min: 1_000, max: 1_000 }, kvTokens: tokens },
      ...{ contextTokens: 4_194_304, prefillTokensPerSecond: 10_000_000 },
    });
    for (let at = 0; at < 100; at += 1) await front.models();
    const before = memoryOf(front.process.child.pid);
    const body = bodyOf(8 * MB, { stream: true });
    // A request that waited too long for room is retried, however long that takes.
    const begun = async () => {
      let status: number | undefined;
      do status = await upload(front, body).catch(() => undefined);
      while (status === 429);
    };
    const running = Array.from({ length: STREAMS }, begun);
    await becomes(async () => (await front.stat("svc_streams_active")) === STREAMS, "all are sent");
    await becomes(async () => (await front.stat("svc_inflight_body_bytes")) === 0, "all have begun");
    // The streams and what they need, but none of their bodies, which are much more.
    await becomes(async () => memoryOf(front.process.child.pid) < before + LEFT_BYTES, "their prompts are gone");
    await front.process.end();
    await Promise.all(running);
  });
});

test.runIf(process.platform === "linux")(
  "endless connections leave descriptors for all other work, and are logged",
  async () => {
    const { address } = await fleet.engine("few");
    const timeouts = { requestTimeoutMs: 3_000 };
    const through = ["bash", "-c", 'ulimit -n 512; exec "$@"', "bash"];
    const front = await ready(await fleet.gateway({ endpoints: [{ address }] }, { timeouts }, through));
    expect(front.process.log).toContainEqual(expect.objectContaining({ maxConnections: 384, openFiles: 512 }));
    const silent: Socket[] = [];
    const areRefused = async () => {
      // Earlier ones may have reached their time limit on a busy machine.
      silent.push(...Array.from({ length: 700 }, () => connect(front.port, "127.0.0.1").on("error", () => {})));
      return (await front.stat("svc_downstream_cx_overflow_total")) > 0;
    };
    await becomes(areRefused, "some are refused");
    expect((await fetch(`${front.adminUrl}/ready`)).status).toBe(200);
    const said = (line: Readonly<Record<string, unknown>>) => String(line.msg).startsWith("connections are refused");
    // A log line takes time through the pipe.
    await becomes(async () => front.process.log.some(said), "the log says so");
    expect(front.process.log.filter(said)).toHaveLength(1);
    const again = async () => (await front.models().catch(() => undefined))?.status === 200;
    await becomes(again, "silent connections make room");
    for (const one of silent) one.destroy();
  },
);
