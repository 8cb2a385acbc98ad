import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { CATALOG } from "../../../gateway/catalog.ts";
import { HealthCheckResponse_ServingStatus as Serving } from "../../../proto/gen/grpc/health/v1/health.ts";
import { HealthNode } from "../../support/engine/health-node.ts";
import type { Script } from "../../support/engine/scripted-backend.ts";
import { type RunningEngine, startEngine } from "../../support/engine/start-engine.ts";
import { textAnswer } from "../../support/events/events.ts";
import { type RunningGateway, startGateway } from "../../support/gateway/start-gateway.ts";
import { MINIMAL } from "../../support/requests/minimal-bodies.ts";
import { until } from "../../support/until.ts";

const PATH = "/v1/chat/completions";
const MODEL = "svc-qwen";

const running: { stop(): unknown }[] = [];

afterEach(async () => {
  for (const one of running.splice(0).reverse()) await one.stop();
});

function keep<T extends { stop(): unknown }>(one: T): T {
  running.push(one);
  return one;
}

const engine = async (script: Script, port = 0) => keep(await startEngine(script, { port }));
const hello: Script = () => [textAnswer("Hello.")];

function healthOf(gateway: RunningGateway, address: string): string | undefined {
  return gateway.clusters.cluster(MODEL)?.member(address)?.healthText(performance.now());
}

async function becomes(gateway: RunningGateway, address: string, health: string | undefined): Promise<void> {
  await until(() => healthOf(gateway, address) === health, `${address} is ${health}`);
}

/** Clients that send requests until they are stopped; all answers that were not complete. */
function underLoad(gateway: RunningGateway, clients: number): { stop(): Promise<{ asked: number; failed: string[] }> } {
  let stopped = false;
  let asked = 0;
  const failed: string[] = [];
  const client = async (stream: boolean) => {
    while (!stopped) {
      const response = await gateway.post(PATH, { ...MINIMAL[PATH], model: MODEL, stream });
      const text = await response.text();
      asked += 1;
      const whole = stream ? text.includes("Hello.") && text.includes("[DONE]") : text.includes("Hello.");
      if (response.status !== 200 || !whole) failed.push(`${response.status} ${text}`);
    }
  };
  const done = Promise.all(Array.from({ length: clients }, (_, index) => client(index % 2 === 0)));
  return keep({
    async stop() {
      stopped = true;
      await done;
      return { asked, failed };
    },
  });
}

/** Endpoints of all models in a file, to be replaced as a whole. */
async function endpointFile() {
  const folder = await mkdtemp(join(tmpdir(), "svc-discovery-"));
  running.push({ stop: () => rm(folder, { recursive: true, force: true }) });
  const path = join(folder, "endpoints.yaml");
  const write = async (text: string) => {
    await writeFile(join(folder, "next"), text);
    await rename(join(folder, "next"), path);
  };
  return {
    write,
    list: (...engines: readonly RunningEngine[]) =>
      write(JSON.stringify({ endpoints: engines.map(({ address }) => ({ address })) })),
    // Round robin: these tests are about the members, not the best one.
    clusters: CATALOG.map(({ id }) => ({ model: id, type: "file", path, lbPolicy: "round_robin" })),
  };
}

describe("a file of endpoints", () => {
  test("a file of endpoints may remove and add endpoints under load without a failed request", async () => {
    const [one, two, three] = [await engine(hello), await engine(hello), await engine(hello)];
    const file = await endpointFile();
    await file.list(one, two);
    const gateway = keep(await startGateway([one.address], { clusters: file.clusters }));
    await becomes(gateway, two.address, "healthy");
    const load = underLoad(gateway, 8);

    await file.list(one, two, three);
    await becomes(gateway, three.address, "healthy");
    const joined = three.backend.requests.length;
    await until(() => three.backend.requests.length > joined + 10, "the new endpoint to get requests");
    await file.list(two, three);
    await becomes(gateway, one.address, undefined);
    await file.write("endpoints: [nonsense");
    await until(() => gateway.clusters.cluster(MODEL)?.discovery.rejected === 1, "the refusal of the bad file");
    await until(() => gateway.clusters.endpoints.length === 2, "the endpoint that left to be closed");
    const left = one.backend.requests.length;
    await file.list(three, one);
    await becomes(gateway, one.address, "healthy");
    await until(() => one.backend.requests.length > left + 10, "the endpoint that came back to get requests");

    const { asked, failed } = await load.stop();
    expect(failed).toEqual([]);
    expect(asked).toBeGreaterThan(20);
    expect(gateway.clusters.endpoints.map(({ activeRequests }) => activeRequests)).toEqual([0, 0]);
  });
});

describe("health", () => {
  test("H10 that flaps on one endpoint fails no request", async () => {
    const [steady, flapping] = [await engine(hello), keep(await HealthNode.start({ models: [MODEL] }))];
    flapping.setStatus(Serving.NOT_SERVING);
    const endpoints = [{ address: steady.address }, { address: flapping.address }];
    const gateway = keep(
      await startGateway([steady.address], { clusters: [{ model: MODEL, endpoints, lbPolicy: "round_robin" }] }),
    );
    const load = underLoad(gateway, 4);
    for (let round = 0; round < 20; round += 1) {
      flapping.setStatus(round % 2 === 0 ? Serving.SERVING : Serving.NOT_SERVING);
      await gateway.post(PATH, { ...MINIMAL[PATH], model: MODEL });
    }
    const { failed } = await load.stop();
    expect(failed).toEqual([]);
  });

  test("health is lost at once by a call's trailer", async () => {
    const other = keep(await HealthNode.start({ models: [MODEL] }));
    const endpoints = [{ address: other.address }];
    const gateway = keep(
      await startGateway([other.address], {
        clusters: [{ model: MODEL, endpoints, lbPolicy: "round_robin", circuitBreakers: { noEndpointHoldMs: 0 } }],
      }),
    );
    other.trailers = { "x-svc-immediate-health-check-fail": "1" };
    const response = await gateway.post(PATH, { ...MINIMAL[PATH], model: MODEL });
    await response.text();
    expect(response.status).not.toBe(200);
    expect(healthOf(gateway, other.address)).toBe("/failed_active_hc");
  });
});
