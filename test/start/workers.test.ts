import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { becomes } from "../support/becomes.ts";
import {
  activeByWorker,
  ask,
  createKey,
  endOfStream,
  liveOf,
  type OpenStream,
  openStream,
  startWorkers,
  streamsOnAll,
  untilWorkerIsNew,
  workerProcess,
} from "../support/processes/gateway-workers.ts";
import { processesWith } from "../support/processes/processes-with.ts";
import type { Service } from "../support/processes/start-service.ts";

/* Several gateway workers on one port, as processes. Who gets a connection is for Node's cluster module to say. */

let service: Service;
const end = async () => void (await service?.stop("SIGKILL"));

const linux = process.platform === "linux";

/** Ends the process of the worker `index`, from 1, at once. Resolves to its id when that is noticed. */
async function kill(index: number): Promise<number> {
  const noticed = () =>
    service.said().split(`the gateway ${index} ended (SIGKILL: was there too little memory for it?)`).length;
  const before = noticed();
  const pid = workerProcess(service, index);
  process.kill(pid, "SIGKILL");
  await becomes(async () => noticed() > before, "its end is noticed");
  return pid;
}

/** Streams that ended so, by how. */
async function endsOf(streams: readonly OpenStream[]): Promise<Record<string, number>> {
  const ends: Record<string, number> = {};
  for (const end of await Promise.all(streams.map(endOfStream))) ends[end] = (ends[end] ?? 0) + 1;
  return ends;
}

async function adminText(adminUrl: string | undefined, path: string, method = "GET"): Promise<string> {
  return (await fetch(`${adminUrl}${path}`, { method })).text();
}

describe("three workers of one service", () => {
  // Every test leaves all three in their places, with nothing to do.
  beforeAll(async () => {
    service = await startWorkers();
  });
  afterAll(end);

  test("each worker has an admin listener of its own, names itself and shows all of them", async () => {
    const { adminUrls } = service;
    expect(new Set(adminUrls).size).toBe(3);
    expect(service.adminUrl).toBe(adminUrls[0]);
    for (const [at, adminUrl] of adminUrls.entries()) {
      const worker = { index: at + 1, count: 3 };
      expect(await liveOf(adminUrl)).toMatchObject({ worker });
      const info = JSON.parse(await adminText(adminUrl, "/server_info"));
      expect(info.worker).toEqual({ ...worker, admin_urls: adminUrls });
    }
    const streams = await streamsOnAll(service, 2_000);
    for (const adminUrl of adminUrls) {
      const { workers, answered, total } = JSON.parse(await adminText(adminUrl, "/workers?format=json"));
      expect(workers.map((worker: { adminUrl: string }) => worker.adminUrl)).toEqual(adminUrls);
      expect([answered, total.active]).toEqual([3, streams.length]);
    }
    const fleetOf = async (adminUrl: string) => JSON.parse(await adminText(adminUrl, "/fleet"));
    for (const adminUrl of adminUrls)
      await becomes(
        async () => (await fleetOf(adminUrl)).total.active === streams.length,
        "each knows the sums of all",
      );
    const { gateways, nodes } = await fleetOf(service.adminUrl);
    expect(gateways.map(({ worker, state }: { worker: number; state: string }) => [worker, state])).toEqual(
      adminUrls.map((_, at) => [at + 1, "LIVE"]),
    );
    expect(nodes).toMatchObject([{ gateways: 3, active: streams.length, flags: [] }]);
    await Promise.all(streams.map(({ body }) => body.leave()));
    await becomes(async () => (await activeByWorker(service)).every((active) => active === 0), "all have left");
  });

  test.runIf(linux)("what a key used is counted for all workers, and outlives each of them", async () => {
    const key = await createKey(service);
    const answers = await Promise.all(Array.from({ length: 9 }, () => ask(service, { max_tokens: 1 }, key)));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 9 }, () => 200));
    const keyId = key.split("_")[2];
    const usedAt = async (adminUrl: string | undefined) =>
      JSON.parse(await adminText(adminUrl, `/keys/${keyId}/usage`)).total.requests;
    await becomes(async () => (await usedAt(service.adminUrls[1])) === 9, "the second worker knows of all requests");
    const killed = await kill(3);
    expect(await usedAt(service.adminUrls[0])).toBe(9);
    await untilWorkerIsNew(service, 3, killed);
  });

  describe.runIf(linux)("a worker that is killed", () => {
    test("takes only its own streams with it; others are served meanwhile, and it comes back in its place", async () => {
      const streams = await streamsOnAll(service, 200);
      const [, active = 0] = await activeByWorker(service);
      const ends = endsOf(streams);
      const killed = await kill(2);
      expect(await adminText(service.adminUrls[0], "/workers")).toContain("worker 2::state::no answer");
      const answers = await Promise.all(Array.from({ length: 9 }, () => ask(service, { max_tokens: 1 })));
      expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 9 }, () => 200));
      const others = streams.length - active;
      expect(active).toBeGreaterThan(0);
      expect(await ends).toEqual({ cut: active, complete: others });
      await untilWorkerIsNew(service, 2, killed);
    });

    test("again and again is started ever later, and comes back when it can", async () => {
      const keyFile = join(service.stateDir, "keys.json");
      const good = readFileSync(keyFile);
      writeFileSync(keyFile, "no keys at all");
      const killed = await kill(1);
      const said = () =>
        [...service.said().matchAll(/the gateway 1 .*starting it again in (\S+) s/g)].map(([, s]) => s);
      await becomes(async () => said().length === 3, "it was started in vain");
      expect(said()).toEqual(["0.5", "1", "2"]);
      expect((await ask(service, { max_tokens: 1 })).status).toBe(200);
      writeFileSync(keyFile, good);
      await untilWorkerIsNew(service, 1, killed);
    });
  });

  describe.runIf(linux)("a worker that is drained by its own admin listener", () => {
    test("stays, without new connections; told to end it finishes its streams, and a new one takes its place", async () => {
      const drained = workerProcess(service, 3);
      const streams = await streamsOnAll(service, 200);
      const [, , third] = service.adminUrls;
      await adminText(third, "/drain_listeners", "POST");
      await becomes(async () => !(await adminText(third, "/listeners")).includes("public"), "it listens no more");
      const before = await activeByWorker(service);
      const more = await Promise.all(Array.from({ length: 6 }, () => openStream(service, 50)));
      const after = await activeByWorker(service);
      expect(after[2]).toBe(before[2]);
      expect(after.reduce((sum, n) => sum + n)).toBe(before.reduce((sum, n) => sum + n) + 6);
      expect(await adminText(service.adminUrls[0], "/workers")).toContain("worker 3::state::DRAINING");
      expect(await adminText(service.adminUrls[0], "/ready")).toBe("LIVE\n");
      await adminText(third, "/quitquitquit", "POST");
      expect(await endsOf([...streams, ...more])).toEqual({ complete: streams.length + 6 });
      await becomes(async () => service.said().includes("the gateway 3 ended (exit code 0)"), "it has ended");
      await untilWorkerIsNew(service, 3, drained);
    });
  });

  describe.runIf(linux)("an engine node that is drained at one worker", () => {
    test("gets no requests from any, nor from one that is started again, until it is undrained at another", async () => {
      const [first, second] = service.adminUrls;
      const health = async (adminUrl: string | undefined) =>
        (await adminText(adminUrl, "/clusters")).match(/svc-qwen::\S+::health_flags::(\S+)/)?.[1];
      const allAre = (wanted: string) =>
        becomes(
          async () => (await Promise.all(service.adminUrls.map(health))).every((one) => one === wanted),
          `all workers say ${wanted}`,
        );
      const statuses = async () =>
        new Set(
          await Promise.all(Array.from({ length: 8 }, async () => (await ask(service, { max_tokens: 1 })).status)),
        );
      const address = (await adminText(first, "/clusters")).match(/svc-qwen::([^:]+:\d+)::/)?.[1];

      const order = async (adminUrl: string | undefined, what: string) =>
        (await fetch(`${adminUrl}/endpoint/${address}/${what}`, { method: "POST" })).status;
      expect(await order(first, "drain")).toBe(200);
      await allAre("/draining");
      expect(await statuses()).toEqual(new Set([503]));

      const killed = await kill(2);
      await becomes(async () => {
        const [worker = killed] = processesWith(`${service.stateDir}/gateway-2.yaml`);
        return worker !== killed && (await liveOf(second ?? "")) !== undefined;
      }, "a new one is in its place");
      expect(JSON.parse(await adminText(second, "/runtime")).entries["endpoints.drained"].final_value).toBe(address);
      await allAre("/draining");
      expect(await statuses()).toEqual(new Set([503]));

      expect(await order(second, "undrain")).toBe(200);
      await allAre("healthy");
      expect(await statuses()).toEqual(new Set([200]));
    });
  });
});

describe.runIf(linux)("stopping", () => {
  afterEach(end);
  const TWO = ["--gateways", "2"];

  test("lets all workers finish, and ends what takes too long in an error frame", async () => {
    service = await startWorkers();
    const short = await streamsOnAll(service, 60);
    const long = await Promise.all(Array.from({ length: 6 }, () => openStream(service, 2_000)));
    // As a service manager does it: only the first process is told.
    service.process.kill("SIGTERM");
    expect(await endsOf(short)).toEqual({ complete: short.length });
    expect(await endsOf(long)).toEqual({ error: long.length });
    expect(await service.stop()).toBe(0);
    expect(processesWith(service.stateDir)).toEqual([]);
  });

  test("with a grace has all workers fail health at once and serve on, until all close together", async () => {
    // Longer than the test takes until it looks at what happens meanwhile.
    service = await startWorkers({ args: [...TWO, "--drain-grace", "20"] });
    service.process.kill("SIGTERM");
    const states = async () => Promise.all(service.adminUrls.map((url) => adminText(url, "/ready")));
    await becomes(async () => (await states()).every((state) => state === "DRAINING\n"), "all fail health");
    const answers = await Promise.all(Array.from({ length: 9 }, () => ask(service, { max_tokens: 1 })));
    expect(answers.map(({ status, headers }) => [status, headers.get("connection")])).toEqual(
      answers.map(() => [200, "close"]),
    );
    await Promise.all(answers.map((answer) => answer.text()));
    expect(await service.stop("SIGTERM")).toBe(0);
    expect(processesWith(service.stateDir)).toEqual([]);
  });

  test("for a second time cuts what still runs", async () => {
    service = await startWorkers({ args: TWO });
    const streams = await streamsOnAll(service, 2_000);
    const deltas = () => streams.map(({ body }) => body.text().split('"content"').length);
    const before = deltas();
    const ended = Promise.all(streams.map(endOfStream));
    const again = setInterval(() => service.process.kill("SIGTERM"), 100);
    expect(await ended).toEqual(streams.map(() => "error"));
    clearInterval(again);
    // Of 50 tokens a second, those of the whole drain time would be 250.
    for (const [index, count] of deltas().entries()) expect(count - (before[index] ?? 0)).toBeLessThan(150);
    expect(await service.stop()).toBe(0);
  });

  test("the first process by force leaves nothing running, and cuts nobody without a word", async () => {
    service = await startWorkers({ args: TWO });
    const streams = await streamsOnAll(service, 2_000);
    service.process.kill("SIGKILL");
    expect(await endsOf(streams)).toEqual({ error: streams.length });
    await becomes(async () => processesWith(service.stateDir).length === 0, "all have ended");
  });
});
