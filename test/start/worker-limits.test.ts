import { Agent, request } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { becomes } from "../support/becomes.ts";
import { metricSum } from "../support/metric-text.ts";
import {
  activeByWorker,
  ask,
  createKey,
  openStream,
  startWorkers,
  untilWorkerIsNew,
  workerProcess,
} from "../support/processes/gateway-workers.ts";
import type { Service } from "../support/processes/start-service.ts";

/* A key's limits hold over all gateway workers of a port. */

let service: Service;
beforeAll(async () => {
  service = await startWorkers();
});
afterAll(async () => {
  await service?.stop();
});

async function statusOf(reply: Promise<Response>): Promise<number> {
  const response = await reply;
  await response.text();
  return response.status;
}

/** The status of a reply that comes within three seconds; 0 for none. */
function soon(status: Promise<number>): Promise<number> {
  return Promise.race([status.catch(() => 0), new Promise<number>((resolve) => setTimeout(resolve, 3_000, 0))]);
}

const among = (statuses: readonly number[], status: number) => statuses.filter((one) => one === status).length;

test("requests per minute are counted once, whichever worker gets them", async () => {
  // Ten seconds' worth may come at once: ten requests, and one more in each further second.
  const key = await createKey(service, "--rpm", "60");
  const startedMs = performance.now();
  const statuses = await Promise.all(Array.from({ length: 40 }, () => statusOf(ask(service, { max_tokens: 1 }, key))));
  const refilled = Math.ceil((performance.now() - startedMs) / 1_000);
  expect(among(statuses, 200) + among(statuses, 429)).toBe(40);
  expect(among(statuses, 200)).toBeGreaterThanOrEqual(10);
  expect(among(statuses, 200)).toBeLessThanOrEqual(10 + refilled);
});

describe.runIf(process.platform === "linux")("while the process that counts is stopped", () => {
  /** Over one connection that is kept. */
  function askOver(agent: Agent, key: string): Promise<number> {
    const body = JSON.stringify({ model: "svc-qwen", messages: [{ role: "user", content: "hi" }], max_tokens: 1 });
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    return new Promise((resolve, reject) => {
      const asked = request(`${service.baseUrl}/v1/chat/completions`, { method: "POST", agent, headers }, (reply) => {
        reply.resume().once("end", () => resolve(reply.statusCode ?? 0));
      });
      asked.once("error", reject).end(body);
    });
  }

  async function storesUp(): Promise<number> {
    const texts = service.adminUrls.map(async (adminUrl) => (await fetch(`${adminUrl}/stats`)).text());
    return (await Promise.all(texts)).reduce((sum, text) => sum + metricSum(text, "svc_ratelimit_store_up"), 0);
  }

  test("a worker counts by itself, says so, and goes back to the common counts after it", async () => {
    const key = await createKey(service, "--rpm", "600000");
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    try {
      expect(await askOver(agent, key)).toBe(200);
      expect(await storesUp()).toBe(3);
      service.process.kill("SIGSTOP");
      const statuses = [await askOver(agent, key), await askOver(agent, key), await askOver(agent, key)];
      expect(statuses).toEqual([200, 200, 200]);
      expect(await storesUp()).toBe(2);
      service.process.kill("SIGCONT");
      await becomes(async () => (await storesUp()) === 3, "all go by the common counts again");
      expect(service.said().match(/counted by this worker alone/g)).toHaveLength(1);
      expect(await askOver(agent, key)).toBe(200);
    } finally {
      service.process.kill("SIGCONT");
      agent.destroy();
    }
  });
});

describe.runIf(process.platform === "linux")("generations at one time", () => {
  test("are counted over all workers, and a worker that is killed gives its places back", async () => {
    const key = await createKey(service, "--concurrency", "2");
    const opened = await Promise.all(Array.from({ length: 12 }, () => openStream(service, 2_000, key)));
    const statuses = opened.map(({ response }) => response.status);
    expect([among(statuses, 200), among(statuses, 429)]).toEqual([2, 10]);
    expect(await statusOf(ask(service, { max_tokens: 1 }, key))).toBe(429);

    const active = await activeByWorker(service);
    const busy = active.findIndex((count) => count > 0) + 1;
    for (const { response, body } of opened) if (response.ok) body.toEnd().catch(() => {});
    const killed = workerProcess(service, busy);
    process.kill(killed, "SIGKILL");
    // A connection that was handed to the worker as it died is answered by nobody.
    const asked = () => soon(statusOf(ask(service, { max_tokens: 1 }, key)));
    await becomes(async () => (await asked()) === 200, "a place is free");
    await untilWorkerIsNew(service, busy, killed);
    // What the others still answer keeps its places.
    const left = 2 - (active[busy - 1] ?? 0);
    const again = await Promise.all(Array.from({ length: 12 }, () => openStream(service, 2_000, key)));
    expect(again.filter(({ response }) => response.ok)).toHaveLength(2 - left);
  });
});
