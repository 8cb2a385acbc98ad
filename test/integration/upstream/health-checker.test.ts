import { describe, expect, onTestFinished, test } from "vitest";
import { Endpoint } from "../../../gateway/upstream/endpoint/endpoint.ts";
import { HealthChecker } from "../../../gateway/upstream/endpoint/health-checker.ts";
import { HealthCheckResponse_ServingStatus as Serving } from "../../../proto/gen/grpc/health/v1/health.ts";
import { HealthNode, type HealthNodeOptions } from "../../support/engine/health-node.ts";
import { until } from "../../support/until.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const MODEL = "svc-qwen";
const SETTINGS = {
  intervalMs: 5_000,
  // Deadlines end in real time, and this one in no test.
  timeoutMs: 3_600_000,
};

/** A clock in virtual time, whose wall clock says when a call ends late. */
class WallClock extends VirtualClock {
  timers = 0;
  #wall: number[] = [];

  override after(ms: number, run: () => void): () => void {
    this.timers += 1;
    return super.after(ms, run);
  }

  override wallMs(): number {
    const [wallMs = super.wallMs()] = this.#wall;
    if (this.#wall.length > 1) this.#wall.shift();
    return wallMs;
  }

  /** The deadline of the next call ends in 50 ms of real time; this clock is then `lateMs` behind it. */
  endNextCall(lateMs = 0): void {
    const deadline = Date.now() + 50;
    this.#wall = [deadline - SETTINGS.timeoutMs, deadline + lateMs];
  }

  followMachine(): void {
    this.#wall = [];
  }
}

/** A checker in virtual time in front of a real node. */
class Checked {
  readonly clock = new WallClock();
  readonly checker: HealthChecker;
  readonly endpoint: Endpoint;
  results = 0;

  constructor(address: string, draw = 0.5) {
    this.endpoint = new Endpoint(address);
    const { clock, endpoint } = this;
    const onResult = () => {
      this.results += 1;
    };
    const timing = { settings: SETTINGS, clock, random: () => draw };
    this.checker = new HealthChecker({ endpoint, model: MODEL, ...timing, onResult });
    onTestFinished(() => endpoint.close());
    onTestFinished(() => this.checker.close());
    this.checker.start();
  }

  async becomes(state: { readonly healthy?: boolean; readonly mismatch?: boolean }): Promise<void> {
    const { healthy = this.checker.healthy, mismatch = this.checker.mismatch } = state;
    await until(
      () => this.checker.healthy === healthy && this.checker.mismatch === mismatch,
      `healthy ${healthy}, mismatch ${mismatch}`,
    );
  }

  /** Advances time, and waits for the resulting events. */
  async passes(ms: number, node: HealthNode): Promise<void> {
    const [checks, results] = [node.checks, this.results];
    await this.clock.advance(ms);
    await until(() => node.checks > checks && this.results > results, "a check");
  }
}

async function nodeWith(options: Partial<HealthNodeOptions> = {}): Promise<HealthNode> {
  const node = await HealthNode.start({ models: [MODEL], ...options });
  onTestFinished(() => node.stop());
  return node;
}

async function healthyNode(): Promise<{ node: HealthNode; checked: Checked }> {
  const node = await nodeWith();
  const checked = new Checked(node.address);
  await checked.becomes({ healthy: true });
  return { node, checked };
}

test("a serving node is healthy at its first report, after its description", async () => {
  const { node, checked } = await healthyNode();
  expect(node.descriptions).toBe(1);
  expect(node.checks).toBe(0);
  expect(checked.checker.mismatch).toBe(false);
  expect(checked.endpoint.description(MODEL)?.maxConcurrentRequests).toBe(4);
});

test("a node that reports not serving is unhealthy at once, and healthy again after two passes", async () => {
  const { node, checked } = await healthyNode();
  node.setStatus(Serving.NOT_SERVING);
  await checked.becomes({ healthy: false });
  const before = checked.results;
  node.setStatus(Serving.SERVING);
  await until(() => checked.results > before, "the first pass");
  expect(checked.checker.healthy).toBe(false);
  await checked.passes(1_200, node);
  expect(checked.checker.healthy).toBe(true);
});

test("health that flaps twice a second does not recover", async () => {
  const { node, checked } = await healthyNode();
  for (let second = 0; second < 10; second += 1) {
    for (const word of [Serving.NOT_SERVING, Serving.SERVING]) {
      const before = checked.results;
      node.setStatus(word);
      await until(() => checked.results > before, "the node's word to arrive");
      expect(checked.checker.healthy).toBe(false);
      await checked.clock.advance(500);
    }
  }
  expect(node.checks).toBe(0);
});

test.each([
  [0, 4_000],
  [0.5, 5_000],
  [0.999999, 6_000],
])("a healthy node is checked every 5 s, more or less a fifth: draw %d, after %d ms", async (draw, afterMs) => {
  const node = await nodeWith();
  const checked = new Checked(node.address, draw);
  await checked.becomes({ healthy: true });
  for (let checks = 0; checks < 2; checks += 1) {
    await checked.clock.advance(afterMs - 1);
    expect(node.checks).toBe(checks);
    await checked.passes(1, node);
  }
});

describe("a watch that breaks", () => {
  test("a watch that breaks is one failure, and restarts; the node stays healthy if that works", async () => {
    const { node, checked } = await healthyNode();
    const before = checked.results;
    node.breakWatches();
    await until(() => checked.results > before, "the failure");
    expect(checked.checker.healthy).toBe(true);
    await checked.clock.advance(100);
    await until(() => node.watches === 2 && node.descriptions === 2, "the new watch");
    expect(checked.checker.healthy).toBe(true);
  });

  test("a watch that breaks after a second of life restarts at once", async () => {
    const { node, checked } = await healthyNode();
    await checked.clock.advance(1_000);
    node.breakWatches();
    await until(() => node.watches === 2, "the new watch");
  });
});

test("a silent node becomes unhealthy by its checks, and recovers by them", async () => {
  const { node, checked } = await healthyNode();
  node.silent = true;
  checked.clock.endNextCall();
  await checked.clock.advance(5_000);
  // The doubt shortens the time to the next check.
  await until(() => checked.results === 2, "the first failed check");
  expect(checked.checker.healthy).toBe(true);
  checked.clock.endNextCall();
  await checked.clock.advance(1_200);
  await checked.becomes({ healthy: false });
  checked.clock.followMachine();
  node.silent = false;
  await checked.passes(1_200, node);
  expect(checked.checker.healthy).toBe(false);
  await checked.passes(1_200, node);
  expect(checked.checker.healthy).toBe(true);
});

test.each([
  ["more than 250 ms late is no failure of the node: this process was blocked", 251, 0],
  ["up to 250 ms late is one", 250, 1],
])("the end of a check that comes %s", async (_what, lateMs, failures) => {
  const { node, checked } = await healthyNode();
  node.silent = true;
  const { clock, results } = checked;
  const { timers } = clock;
  clock.endNextCall(lateMs);
  await clock.advance(5_000);
  await until(() => clock.timers > timers, "the end of the check, which sets the time of the next one");
  expect(checked.results - results).toBe(failures);
});

test("a node without Watch is checked by Check", async () => {
  const node = await nodeWith({ watch: false });
  const checked = new Checked(node.address);
  await checked.becomes({ healthy: true });
  expect(node.checks).toBe(1);
  node.serving = Serving.NOT_SERVING;
  await checked.passes(5_000, node);
  expect(checked.checker.healthy).toBe(false);
});

describe("H6 the handshake", () => {
  test.each<[string, Partial<HealthNodeOptions>, Serving, boolean]>([
    ["describes another model", { models: ["svc-glm53"] }, Serving.SERVING, true],
    ["does not have the model", { models: ["svc-glm53"] }, Serving.SERVICE_UNKNOWN, false],
    ["does not implement the contract", { contract: false }, Serving.SERVING, true],
  ])("the handshake detects a node that %s", async (_what, options, serving, healthy) => {
    const node = await nodeWith(options);
    node.serving = serving;
    await new Checked(node.address).becomes({ healthy, mismatch: true });
  });

  test("the handshake accepts a node that is still loading as such", async () => {
    const node = await nodeWith({ models: [] });
    node.serving = Serving.NOT_SERVING;
    const checked = new Checked(node.address);
    await until(() => checked.results > 0, "its first word");
    expect(checked.checker).toMatchObject({ healthy: false, mismatch: false });
    expect(node.descriptions).toBe(0);
  });

  test("the handshake is repeated with each check while it fails", async () => {
    const node = await nodeWith({ models: ["svc-glm53"] });
    const checked = new Checked(node.address);
    await checked.becomes({ mismatch: true, healthy: true });
    node.models = [MODEL];
    await checked.passes(5_000, node);
    await checked.becomes({ mismatch: false });
  });

  test("the handshake is repeated with a new connection: the address may be another node", async () => {
    const { node, checked } = await healthyNode();
    node.stop();
    await until(() => checked.results > 1, "the failure");
    await checked.clock.advance(100);
    await checked.becomes({ healthy: false });
    const other = await nodeWith({ models: ["svc-glm53"], port: node.port });
    await until(() => {
      void checked.clock.advance(100);
      return checked.checker.mismatch;
    }, "the mismatch");
    expect(other.descriptions).toBeGreaterThan(0);
  });
});

test("a node that fails a call for its health is unhealthy at once, and recovers by passes", async () => {
  const { node, checked } = await healthyNode();
  checked.endpoint.failHealthNow();
  expect(checked.checker.healthy).toBe(false);
  await checked.passes(1_200, node);
  expect(checked.checker.healthy).toBe(false);
  await checked.passes(1_200, node);
  expect(checked.checker.healthy).toBe(true);
});

test("closing stops all reports", async () => {
  const { node, checked } = await healthyNode();
  const before = checked.results;
  checked.checker.close();
  node.setStatus(Serving.NOT_SERVING);
  checked.endpoint.failHealthNow();
  await checked.clock.advance(60_000);
  expect(checked.results).toBe(before);
  expect(node.checks).toBe(0);
});
