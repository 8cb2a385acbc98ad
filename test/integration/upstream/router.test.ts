import { afterEach, describe, expect, test } from "vitest";
import type { Script } from "../../../engine/backends/scripted/scripted.ts";
import { EngineError, toFailedCall } from "../../../engine/errors.ts";
import { type Event, FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { FaultyWire } from "../../support/engine/faulty-wire.ts";
import { HealthNode } from "../../support/engine/health-node.ts";
import { lostMidway } from "../../support/engine/lost-midway.ts";
import { type RunningEngine, startEngine } from "../../support/engine/start-engine.ts";
import { blockEnd, delta, finished, started, textAnswer, textStart } from "../../support/events/events.ts";
import {
  CallNotes,
  encoded,
  encodedCount,
  FrontRig,
  type FrontRigOptions,
  HINTS,
} from "../../support/gateway/front-rig.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { until } from "../../support/until.ts";

const closing: (() => void | Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const hello: Script = () => [textAnswer("Hello.")];
const failsAt = (events: readonly Event[]): Script =>
  async function* () {
    if (events.length > 0) yield events;
    throw new EngineError("ENGINE_DOWN", "gone");
  };
const staysAt = (...steps: readonly (readonly Event[])[]): Script =>
  async function* () {
    yield* steps;
    await new Promise(() => {});
  };

async function engine(script: Script, slots = 1_000): Promise<RunningEngine> {
  const running = await startEngine(script, { slots });
  closing.push(() => running.stop());
  return running;
}

/** Engines by priority: the first gets all requests that it can take. */
async function routed(scripts: readonly Script[], options: FrontRigOptions = {}) {
  const engines = await Promise.all(scripts.map((script) => engine(script)));
  return { engines, ...(await inFrontOf(engines, options)) };
}

async function inFrontOf(nodes: readonly { readonly address: string }[], options: FrontRigOptions = {}) {
  const rig = new FrontRig(
    nodes.map(({ address }, priority) => ({ address, priority })),
    options,
  );
  closing.push(() => rig.close());
  await rig.ready();
  return { rig };
}

const callsOf = (engines: readonly RunningEngine[]) => engines.map(({ backend }) => backend.requests.length);

describe("a try that failed", () => {
  const beforeDelta: readonly (readonly [string, Script])[] = [
    ["before it was accepted", failsAt([])],
    ["in its prefill", failsAt([started()])],
    ["behind a block's start", failsAt([started(), textStart(0)])],
    [
      "because its queue is full",
      () => {
        throw new EngineError("QUEUE_FULL", "full");
      },
    ],
    ["by breaking the protocol", () => [[started(), textStart(7)]]],
    ["by ending too early", () => [[started(), textStart(0)]]],
  ];

  test.each(beforeDelta)("%s is repeated on another endpoint, unseen", async (_when, script) => {
    const { rig, engines } = await routed([script, hello]);
    const sent = rig.send();
    await until(() => sent.calls.attempts >= 1, "the first try");
    await settle(rig, sent.outcome);
    expect(await sent.outcome).toBe("ok");
    expect(sent.calls).toMatchObject({ attempts: 2, endpoint: engines[1]?.address });
    expect(sent.calls.failedTries).toHaveLength(1);
    expect(sent.events.filter(({ kind }) => kind?.$case !== "started")).toEqual(textAnswer("Hello.").slice(1));
    await rig.atRest();
  });

  test("behind the first delta is the answer's failure", async () => {
    const { rig, engines } = await routed([lostMidway, hello]);
    const sent = rig.send();
    expect(await sent.outcome).toBe("upstream_reset");
    expect(callsOf(engines)).toEqual([1, 0]);
    expect(sent.events.at(-1)).toEqual(delta(0, "half"));
    await rig.atRest();
  });

  test("behind the first delta is repeated where nothing has left the gateway", async () => {
    const { rig } = await routed([lostMidway, hello]);
    const sent = rig.send(generateRequest(), { folded: true });
    await settle(rig, sent.outcome);
    expect(await sent.outcome).toBe("ok");
    expect(sent.events).toEqual(textAnswer("Hello."));
  });

  test("gives its place on an endpoint that was lost to nobody who waits", async () => {
    const nodes = await Promise.all([engine(staysAt([started()])), engine(staysAt([started()]))]);
    const wires = await Promise.all(nodes.map(({ address }) => FaultyWire.start(address)));
    for (const wire of wires) closing.push(() => wire.close());
    const { rig } = await inFrontOf(wires, { cluster: { circuitBreakers: { maxRequestsPerEndpoint: 1 } } });
    const running = ["one", "two"].map((text) => rig.send(generateRequest({}, text)));
    await until(() => running.every(({ events }) => events.length === 1), "both have a place");
    const waiting = rig.send(generateRequest({}, "three"));
    await until(() => rig.router.traffic[0]?.admission.pending === 1, "one waits");
    wires[0]?.cut();
    await until(() => running[0]?.calls.failedTries.length === 1, "the loss is noticed");
    for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
    expect(waiting.calls.attempts).toBe(0);
    for (const { leave, outcome } of [...running, waiting]) {
      leave();
      await outcome;
    }
  });

  const reading: Event = { kind: { $case: "progress", value: { queuePosition: 0, prefilledTokens: 0, step: 1 } } };

  test.each([
    ["INVALID_REQUEST", "engine_invalid_request"],
    ["INVALID_SCHEMA", "engine_invalid_schema"],
    ["UNSUPPORTED_FEATURE", "engine_unsupported_feature"],
    ["CONTEXT_WINDOW_EXCEEDED", "context_length_exceeded"],
  ] as const)("with %s behind a sign of life is repeated nowhere, and ejects nobody", async (reason, detail) => {
    const script: Script = async function* () {
      yield [reading];
      throw new EngineError(reason, "The caller's fault.");
    };
    const { rig, engines } = await routed([script, hello]);
    for (let tries = 1; tries <= 6; tries += 1) {
      expect(await rig.send().outcome).toBe(detail);
      expect(callsOf(engines)).toEqual([tries, 0]);
    }
    await rig.atRest();
  });

  test("as its node is too busy to read it, behind a sign of life, is repeated elsewhere", async () => {
    const script: Script = async function* () {
      yield [reading];
      throw new EngineError("QUEUE_FULL", "full");
    };
    const { rig } = await routed([script, hello]);
    const sent = rig.send();
    await settle(rig, sent.outcome);
    expect(await sent.outcome).toBe("ok");
    expect(sent.calls.attempts).toBe(2);
    expect(sent.events.filter(({ kind }) => kind?.$case === "blockDelta")).toHaveLength(1);
  });

  test("for a fault of the request is repeated nowhere", async () => {
    const script: Script = () => {
      throw new EngineError("CONTEXT_WINDOW_EXCEEDED", "long", { input_tokens: "9", context_window: "8" });
    };
    const { rig, engines } = await routed([script, hello]);
    expect(await rig.send().outcome).toBe("context_length_exceeded");
    expect(callsOf(engines)).toEqual([1, 0]);
    await rig.atRest();
  });

  test.each([
    [0, [1, 0, 0, 0]],
    [1, [1, 1, 0, 0]],
    [2, [1, 1, 1, 0]],
    [5, [1, 1, 1, 1]],
  ])("is repeated at most %i times, each time on another endpoint", async (numRetries, calls) => {
    const down = failsAt([]);
    const { rig, engines } = await routed([down, down, down, down], { router: { numRetries } });
    const { outcome } = rig.send();
    await settle(rig, outcome);
    expect(await outcome).toBe("upstream_reset");
    expect(callsOf(engines)).toEqual(calls);
    await rig.atRest();
  });

  test("waits before it is repeated: the wait is drawn from a range that grows", async () => {
    const down = failsAt([started()]);
    const { rig, engines } = await routed([down, down, hello], { router: { random: () => 0.5 } });
    const { outcome } = rig.send();
    await until(() => rig.router.traffic[0]?.budget.activeRetries === 1, "the first wait");
    await rig.clock.advance(24);
    expect(callsOf(engines)).toEqual([1, 0, 0]);
    await rig.clock.advance(1);
    await until(() => engines[1]?.backend.requests.length === 1, "the second try");
    await until(() => (rig.manager.endpoints[1]?.activeRequests ?? 1) === 0, "the second try is over");
    await rig.clock.advance(74);
    expect(callsOf(engines)).toEqual([1, 1, 0]);
    await rig.clock.advance(1);
    expect(await outcome).toBe("ok");
  });

  test("is not repeated when the budget is used up; what is repeated counts until it is answered", async () => {
    const circuitBreakers = { retryBudget: { budgetPercent: 0, minRetryConcurrency: 1 } };
    const { rig } = await routed([failsAt([]), staysAt([started()])], { cluster: { circuitBreakers } });
    const first = rig.send(generateRequest({}, "one"));
    await settle(
      rig,
      until(() => first.calls.attempts === 2, "it is repeated"),
    );
    const second = rig.send(generateRequest({}, "two"));
    expect(await second.outcome).toBe("upstream_reset");
    expect(second.calls.attempts).toBe(1);
    expect(rig.router.traffic[0]?.budget).toMatchObject({ activeRetries: 1, overflows: 1 });
    first.leave();
    await first.outcome;
    expect(rig.router.traffic[0]?.budget.activeRetries).toBe(0);
  });

  test("by a node that drains needs no budget: no engine has worked on it", async () => {
    const circuitBreakers = { retryBudget: { budgetPercent: 0, minRetryConcurrency: 0 } };
    const draining: Script = () => {
      throw new EngineError("DRAINING", "going");
    };
    const { rig } = await routed([draining, hello], { cluster: { circuitBreakers } });
    const sent = rig.send();
    await settle(rig, sent.outcome);
    expect(await sent.outcome).toBe("ok");
    expect(rig.router.traffic[0]?.budget).toMatchObject({ activeRetries: 0, overflows: 0 });
  });

  test("counts in the budget no longer once its answer has begun", async () => {
    const { rig } = await routed([failsAt([]), staysAt([started(), textStart(0), delta(0, "a")])]);
    const sent = rig.send();
    await settle(
      rig,
      until(() => sent.events.length > 2, "the answer has begun"),
    );
    expect(rig.router.traffic[0]?.budget.activeRetries).toBe(0);
    sent.leave();
    await sent.outcome;
    await rig.atRest();
  });
});

describe("a caller that leaves", () => {
  test("while its big prompt is looked at costs no call", async () => {
    const { engines, rig } = await routed([hello]);
    const big = generateRequest({}, "x".repeat(2 * 1024 * 1024));
    const stays = rig.send(big);
    const leaves = rig.send(big);
    leaves.leave();
    expect([await stays.outcome, await leaves.outcome]).toEqual(["ok", "downstream_remote_disconnect"]);
    expect([stays.calls.attempts, leaves.calls.attempts]).toEqual([1, 0]);
    expect(callsOf(engines)).toEqual([1]);
  });

  test.each([
    ["before it was accepted", staysAt()],
    ["in its prefill", staysAt([started()])],
    ["in the middle of the answer", staysAt([started(), textStart(0), delta(0, "a")])],
  ])("%s frees everything", async (_when, script) => {
    const { rig, engines } = await routed([script]);
    const sent = rig.send();
    await until(() => engines[0]?.backend.load().busySlots === 1, "the engine works");
    sent.leave();
    expect(await sent.outcome).toBe("downstream_remote_disconnect");
    await rig.atRest();
    await until(() => engines[0]?.backend.load().busySlots === 0, "the engine is free");
  });

  test("while it waits is in no queue any more, and never reaches an engine", async () => {
    const circuitBreakers = { maxRequests: 1 };
    const { rig, engines } = await routed([staysAt([started()])], { cluster: { circuitBreakers } });
    const first = rig.send();
    const second = rig.send();
    await until(() => engines[0]?.backend.requests.length === 1, "the other one runs");
    expect(rig.router.traffic[0]?.admission.pending).toBe(1);
    second.leave();
    expect(await second.outcome).toBe("downstream_remote_disconnect");
    first.leave();
    await first.outcome;
    await rig.atRest();
    expect(callsOf(engines)).toEqual([1]);
  });

  test("between two tries gets no second one", async () => {
    const { rig, engines } = await routed([failsAt([]), hello], { router: { random: () => 0.9 } });
    const sent = rig.send();
    await until(() => rig.router.traffic[0]?.budget.activeRetries === 1, "the wait");
    sent.leave();
    expect(await sent.outcome).toBe("downstream_remote_disconnect");
    expect(callsOf(engines)).toEqual([1, 0]);
    await rig.atRest();
  });
});

describe("no place", () => {
  test.each([
    ["of its key", { maxPendingRequestsPerKey: 1 }, "key_pending_overflow"],
    ["of the cluster", { maxPendingRequests: 1 }, "upstream_pending_overflow"],
  ])("in the queue, by the limit %s", async (_what, limits, detail) => {
    const circuitBreakers = { maxRequests: 1, ...limits };
    const { rig } = await routed([staysAt([started()])], { cluster: { circuitBreakers } });
    const others = [rig.send(), rig.send()];
    await until(() => rig.router.traffic[0]?.admission.pending === 1, "one waits");
    expect(await rig.send().outcome).toBe(detail);
    for (const other of others) other.leave();
    await Promise.all(others.map(({ outcome }) => outcome));
    await rig.atRest();
  });

  test("within the time", async () => {
    const options = { cluster: { circuitBreakers: { maxRequests: 1 } }, timeouts: { pendingMs: 1_000 } };
    const { rig } = await routed([staysAt([started()])], options);
    const first = rig.send();
    const second = rig.send();
    await until(() => rig.router.traffic[0]?.admission.pending === 1, "it waits");
    await rig.clock.advance(1_100);
    expect(await second.outcome).toBe("upstream_pending_timeout");
    first.leave();
    await first.outcome;
  });

  test("as there is no such cluster, or no endpoint in it", async () => {
    const rig = new FrontRig([]);
    closing.push(() => rig.close());
    expect(await rig.send().outcome).toBe("no_healthy_upstream");
    expect(await rig.send(generateRequest({ model: "svc-glm53" })).outcome).toBe("no_healthy_upstream");
  });
});

describe("an endpoint that does not get on", () => {
  const TIMEOUTS = {
    acceptMs: 1_000,
    perTry: { baseMs: 2_000, perThousandTokensMs: 0, maxMs: 2_000 },
    perTryIdleMs: 3_000,
    interTokenMs: 2_500,
  };
  const begun = [started(), textStart(0), delta(0, "a")];

  test.each([
    { phase: "it does not take the request", script: staysAt(), detail: "upstream_accept_timeout", retried: true },
    {
      phase: "there is no first delta",
      script: staysAt([started()]),
      detail: "upstream_per_try_timeout",
      retried: true,
    },
    {
      phase: "there is no sign of life",
      script: staysAt([started()]),
      timeouts: { perTryIdleMs: 1_000 },
      detail: "upstream_per_try_idle_timeout",
      retried: true,
    },
    {
      phase: "there is no further delta",
      script: staysAt(begun),
      detail: "upstream_inter_token_timeout",
      retried: false,
    },
    {
      phase: "it falls silent in the answer",
      script: staysAt(begun),
      timeouts: { perTryIdleMs: 1_000 },
      detail: "upstream_per_try_idle_timeout",
      retried: false,
    },
  ])("$phase: $detail", async ({ script, detail, timeouts = {}, retried }) => {
    for (const scripts of [[script], [script, hello]]) {
      const { rig, engines } = await routed(scripts, { timeouts: { ...TIMEOUTS, ...timeouts } });
      const sent = rig.send();
      await until(() => engines[0]?.backend.load().busySlots === 1, "the engine works");
      // What is sent before the silence must have arrived before time moves on.
      if (detail !== "upstream_accept_timeout") await until(() => sent.events.length > 0, "the first events");
      await settle(rig, sent.outcome);
      expect(await sent.outcome).toBe(retried && scripts.length === 2 ? "ok" : detail);
      expect(sent.calls.attempts).toBe(retried ? scripts.length : 1);
      await rig.atRest();
    }
  });

  test("because nobody answers at its address: the try fails in the time to connect, and another takes the request", async () => {
    const lost = await engine(hello);
    const wire = await FaultyWire.start(lost.address);
    closing.push(() => wire.close());
    const well = await engine(hello);
    const { rig } = await inFrontOf([wire, well], { timeouts: { connectMs: 1_000, acceptMs: 60_000 } });
    const [member] = rig.cluster.members;
    wire.vanish();
    await until(() => member?.endpoint.connected === false, "the connection is gone");
    const sent = rig.send();
    await rig.clock.advance(999);
    expect(sent.calls).toMatchObject({ attempts: 1, endpoint: wire.address });
    await rig.clock.advance(1);
    await settle(rig, sent.outcome);
    expect(await sent.outcome).toBe("ok");
    expect(sent.calls.endpoint).toBe(well.address);
  });

  test.each(["a generation", "a count of tokens"])("because nobody answers at its only address: %s", async (what) => {
    const lost = await engine(hello);
    const wire = await FaultyWire.start(lost.address);
    closing.push(() => wire.close());
    const { rig } = await inFrontOf([wire], { timeouts: { connectMs: 1_000, acceptMs: 60_000 } });
    wire.vanish();
    await until(() => rig.manager.endpoints[0]?.connected === false, "the connection is gone");
    const outcome =
      what === "a generation"
        ? rig.send().outcome
        : rig.router
            .countTokens(
              { request: encodedCount(), model: "svc-qwen", record: new CallNotes() },
              new AbortController().signal,
            )
            .catch(({ detail }) => detail);
    await rig.clock.advance(1_000);
    expect(await outcome).toBe("upstream_connect_failure");
  });

  test("because our own reader is slow has all the time in the world", async () => {
    const { rig } = await routed([staysAt(begun)], { timeouts: TIMEOUTS });
    const sent = rig.send();
    await until(() => sent.events.length > 0, "the answer begins");
    sent.flow().pause();
    await rig.clock.advance(60_000);
    expect(rig.manager.endpoints[0]?.activeRequests).toBe(1);
    sent.flow().resume();
    await rig.clock.advance(10_000);
    expect(await sent.outcome).toBe("upstream_inter_token_timeout");
  });
});

describe("a request that kills engines", () => {
  async function behindWires(script: Script, count: number) {
    const one = await engine(script);
    const wires = await Promise.all(Array.from({ length: count }, () => FaultyWire.start(one.address)));
    for (const wire of wires) closing.push(() => wire.close());
    return { one, wires, ...(await inFrontOf(wires)) };
  }

  test("is given up after the second one, and refused from then on; other requests are not", async () => {
    const { rig, one, wires } = await behindWires(staysAt([started()]), 4);
    const poison = generateRequest({}, "poison");
    const sent = rig.send(poison);
    for (const [index, wire] of wires.slice(0, 2).entries()) {
      // Only what an engine has begun to work on can have killed it.
      await settle(
        rig,
        until(() => sent.events.length === index + 1, "an engine works on it"),
      );
      expect(rig.manager.endpoints[index]?.activeRequests).toBe(1);
      wire.cut();
      await until(() => rig.manager.endpoints[index]?.activeRequests === 0, "the loss is noticed");
    }
    await settle(rig, sent.outcome);
    expect(await sent.outcome).toBe("request_of_death");
    expect(sent.calls).toMatchObject({ attempts: 2, failedTries: ["upstream_reset", "upstream_reset"] });
    expect(await rig.send(poison).outcome).toBe("request_of_death");
    expect(one.backend.requests).toHaveLength(2);
    const other = rig.send(generateRequest({}, "harmless"));
    await settle(
      rig,
      until(() => one.backend.requests.length === 3, "another request is served"),
    );
    other.leave();
    await other.outcome;
    await rig.clock.advance(600_000);
    await until(() => rig.cluster.healthyEndpoints.length > 0, "it goes on");
    const again = rig.send(poison);
    await settle(
      rig,
      until(() => one.backend.requests.length === 4, "it is tried again after its time"),
    );
    again.leave();
    await again.outcome;
  });

  test("is given up after the second endpoint that fell silent over it", async () => {
    const { rig, one } = await behindWires(staysAt([started()]), 3);
    const poison = generateRequest({}, "poison");
    const sent = rig.send(poison);
    await settle(rig, sent.outcome);
    expect(await sent.outcome).toBe("request_of_death");
    expect(sent.calls.attempts).toBe(2);
    expect(one.backend.requests).toHaveLength(2);
    expect(await rig.send(poison).outcome).toBe("request_of_death");
  });

  test("is told from those whose endpoints fell silent beside it, up to a sixth time", async () => {
    const { rig } = await behindWires(staysAt([started()]), 3);
    const sent = ["poison", "harmless"].map((text) => rig.send(generateRequest({}, text)));
    for (const { outcome, calls } of sent) {
      await settle(rig, outcome);
      expect(await outcome).toBe("request_of_death");
      expect(calls.attempts).toBe(6);
    }
  });

  test("is told from those that were lost with it, which are tried again a little later", async () => {
    const { rig, one, wires } = await behindWires(staysAt([started()]), 3);
    const requests = ["poison", "harmless"].map((text) => generateRequest({}, text));
    const sent = requests.map((request) => rig.send(request));
    for (const [index, wire] of wires.slice(0, 2).entries()) {
      await settle(
        rig,
        until(() => sent.every(({ events }) => events.length === index + 1), "an engine works on both"),
      );
      wire.cut();
    }
    await until(() => sent.every(({ calls }) => calls.failedTries.length === 2), "the losses are noticed");
    // One that comes again by itself meanwhile is sent away.
    const [again] = requests;
    expect(await rig.send(again).outcome).toBe("request_of_death_suspected");
    await rig.clock.advance(9_000);
    expect(one.backend.requests).toHaveLength(4);
    await settle(
      rig,
      until(() => one.backend.requests.length === 6, "both are tried again"),
    );
    for (const { leave, outcome } of sent) {
      leave();
      await outcome;
    }
  });

  test("is not one whose endpoints had said that they would go", async () => {
    const nodes = await Promise.all([engine(staysAt([started()])), engine(staysAt([started()]))]);
    const wires = await Promise.all(nodes.map(({ address }) => FaultyWire.start(address)));
    for (const wire of wires) closing.push(() => wire.close());
    const { rig } = await inFrontOf(wires);
    const members = rig.cluster.members;
    const sent = rig.send(generateRequest({}, "innocent"));
    for (const [index, wire] of wires.entries()) {
      await settle(
        rig,
        until(() => sent.events.length === index + 1, "an engine works on it"),
      );
      nodes[index]?.server.startDraining();
      await until(() => members[index]?.isLeaving(rig.clock.nowMs()) === true, "it says that it goes");
      wire.cut();
    }
    await settle(rig, sent.outcome);
    expect(await sent.outcome).toBe("upstream_reset");
  });

  test("is not one that never reached them: who cannot be connected to was not killed", async () => {
    const engines = await Promise.all([engine(hello), engine(hello), engine(hello)]);
    for (const one of engines) await one.stop();
    const endpoints = engines.map(({ address }) => address);
    const rig = new FrontRig(endpoints, {
      cluster: { healthyPanicThreshold: 100 },
      healthy: 0,
    });
    closing.push(() => rig.close());
    for (let index = 0; index < 2; index += 1) {
      const sent = rig.send();
      await settle(rig, sent.outcome);
      expect(await sent.outcome).toBe("upstream_connect_failure");
      expect(sent.calls.attempts).toBe(3);
    }
    await rig.atRest();
  });
});

test("an endpoint that says when it has room again is left in peace until then", async () => {
  const full = await HealthNode.start({ models: ["svc-qwen"] });
  full.refusal = toFailedCall(new EngineError("QUEUE_FULL", "full"), 30_000);
  closing.push(() => full.stop());
  const { rig } = await inFrontOf([full, await engine(hello)]);
  const ask = async (text: string) => {
    const { outcome } = rig.send(generateRequest({}, text));
    await settle(rig, outcome);
    expect(await outcome).toBe("ok");
  };
  for (const text of ["one", "two", "three"]) await ask(text);
  expect(full.generations).toBe(1);
  await rig.clock.advance(30_000);
  await ask("four");
  expect(full.generations).toBe(2);
});

test("where all endpoints are full, the caller hears when there is room, spread by a fifth", async () => {
  for (const [draw, expected] of [
    [0, 8_000],
    [0.5, 10_000],
  ] as const) {
    const full = await HealthNode.start({ models: ["svc-qwen"] });
    full.refusal = toFailedCall(new EngineError("QUEUE_FULL", "full"), 10_000);
    closing.push(() => full.stop());
    const { rig } = await inFrontOf([full], { router: { random: () => draw } });
    const sink = { events: () => {} };
    const request = { ...encoded(generateRequest()), hints: HINTS, timeoutMs: 60_000, mayHold: false };
    const recorded = { ...request, sink, record: new CallNotes() };
    const dispatched = rig.router.dispatch(recorded, new AbortController().signal);
    await expect(dispatched).rejects.toMatchObject({ detail: "upstream_queue_full", retryAfterMs: expected });
  }
});

describe("an endpoint that fails again and again", () => {
  test("is ejected after five failures in a row, and begins slowly afterwards", async () => {
    const { rig, engines } = await routed([failsAt([]), hello]);
    const [bad] = engines;
    for (let index = 0; index < 8; index += 1) {
      const { outcome } = rig.send(generateRequest({}, `request ${index}`));
      await settle(rig, outcome);
      expect(await outcome).toBe("ok");
    }
    expect(bad?.backend.requests).toHaveLength(5);
    const health = () => rig.cluster.member(bad?.address ?? "")?.healthText(rig.clock.nowMs());
    expect(health()).toBe("/failed_outlier_check");
    const metric = await rig.registry.getSingleMetricAsString("svc_cluster_outlier_ejections_total");
    expect(metric).toContain('type="consecutive_gateway_failure",enforced="true"} 1');
    await rig.clock.advance(15_000);
    expect(health()).toBe("healthy");
    const back = rig.cluster.views.get(bad?.address ?? "");
    expect(rig.clock.nowMs() - (back?.healthySinceMs ?? 0)).toBeLessThan(15_000);
    expect(back?.healthySinceMs).toBeGreaterThanOrEqual(15_000);
  });

  test("is not ejected for faults of requests, and one success clears its record", async () => {
    let calls = 0;
    const script: Script = () => {
      calls += 1;
      if (calls % 5 === 0) return [textAnswer("fine")];
      throw new EngineError(calls % 2 === 0 ? "INVALID_REQUEST" : "ENGINE_DOWN", "no");
    };
    const { rig } = await routed([script, hello]);
    for (let index = 0; index < 20; index += 1) {
      const { outcome } = rig.send(generateRequest({}, `request ${index}`));
      await settle(rig, outcome);
    }
    expect(calls).toBe(20);
  });
});

test("a count over which an endpoint is lost is told from one that reached none", async () => {
  const held = await engine(hello);
  held.backend.countTokens = () => new Promise(() => {});
  const wire = await FaultyWire.start(held.address);
  closing.push(() => wire.close());
  const { rig } = await inFrontOf([wire]);
  const record = new CallNotes();
  const outcome = rig.router
    .countTokens({ request: encodedCount(), model: "svc-qwen", record }, new AbortController().signal)
    .catch(({ detail }) => detail);
  await until(() => record.attempts === 1, "the endpoint is asked");
  wire.cut();
  expect(await outcome).toBe("upstream_reset");
  expect(record.failedTries).toEqual(["upstream_reset"]);
});

test("several answers at once end each with its own text", async () => {
  const echo: Script = (request) => {
    const part = request.messages[0]?.parts[0]?.kind;
    const text = part?.$case === "text" ? part.value.text : "";
    return [[started(), textStart(0)], [delta(0, text)], [blockEnd(0), finished(FinishReason.STOP)]];
  };
  const { rig } = await routed([echo, echo]);
  const texts = Array.from({ length: 50 }, (_, index) => `text ${index}`);
  const sent = texts.map((text) => rig.send(generateRequest({}, text)));
  expect(await Promise.all(sent.map(({ outcome }) => outcome))).toEqual(texts.map(() => "ok"));
  for (const [index, { events }] of sent.entries()) expect(events).toContainEqual(delta(0, `text ${index}`));
  await rig.atRest();
});

/** Lets virtual time pass until it is over, in small steps: what is on the wire needs real time in between. */
async function settle(rig: FrontRig, over: Promise<unknown>): Promise<void> {
  let going = true;
  void over.then(
    () => {
      going = false;
    },
    () => {
      going = false;
    },
  );
  for (const lastMs = Date.now() + 55_000; going; ) {
    if (Date.now() > lastMs) throw new Error("it did not come to an end");
    await rig.clock.advance(20);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

describe("a big request", () => {
  const MIB = 1024 * 1024;
  const big = (mib: number) => generateRequest({}, "x".repeat(mib * MIB));

  test("that could not be written in time is refused as overload, tried nowhere else, and ejects nobody", async () => {
    const nodes = [await engine(hello), await engine(hello)] as const;
    const wires = await Promise.all(nodes.map(({ address }) => FaultyWire.start(address)));
    for (const wire of wires) closing.push(() => wire.close());
    // Checks of health and keep-alives go by the wall clock, which a busy machine is late on: a connection that says
    // nothing is given up after 30 s of it, so there is little virtual time to go through.
    const cluster = { healthChecks: { intervalMs: 3_600_000, intervalJitterMs: 0 } };
    const { rig } = await inFrontOf(wires, { cluster, timeouts: { acceptMs: 400, acceptPerMiBMs: 0 } });
    // Neither reads any more: what the windows of HTTP/2 do not take stays here.
    for (const wire of wires) wire.silence();
    for (let at = 0; at < 8; at += 1) {
      const sent = rig.send(big(2));
      await settle(rig, sent.outcome);
      expect(await sent.outcome).toBe("upstream_hand_over_timeout");
      expect(sent.calls.attempts).toBe(1);
    }
    for (const { endpoint } of rig.cluster.members)
      expect(rig.cluster.outliers.isEjected(endpoint.address, rig.clock.nowMs())).toBe(false);
  });

  test("is the only kind that is not tried elsewhere: a small one finds a way that is open", async () => {
    const nodes = [await engine(hello), await engine(hello)] as const;
    const wires = await Promise.all(nodes.map(({ address }) => FaultyWire.start(address)));
    for (const wire of wires) closing.push(() => wire.close());
    const cluster = { lbPolicy: "round_robin", healthChecks: { intervalMs: 3_600_000, intervalJitterMs: 0 } } as const;
    const { rig } = await inFrontOf(wires, { cluster, timeouts: { acceptMs: 10_000, acceptPerMiBMs: 0 } });
    const [closed] = wires;
    closed?.silence();
    // What the windows of HTTP/2 take is gone, and from then on the connection takes nothing.
    const stuck = Array.from({ length: 8 }, () => rig.send(generateRequest({}, "x".repeat(100_000))));
    await settle(rig, Promise.all(stuck.map(({ outcome }) => outcome)));
    const outcomes = await Promise.all(stuck.map(({ outcome }) => outcome));
    expect(outcomes).toEqual(stuck.map(() => "ok"));
    expect(stuck.some(({ calls }) => calls.attempts === 2)).toBe(true);
  });

  test("goes to an endpoint after those before it, and the small ones pass", async () => {
    const node = await engine(hello);
    const wire = await FaultyWire.start(node.address);
    closing.push(() => wire.close());
    const { rig } = await inFrontOf([wire]);
    const [endpoint] = rig.cluster.endpoints;
    wire.slow();
    const first = rig.send(big(4));
    const second = rig.send(big(4));
    await until(() => endpoint?.handOvers.waiting === 1, "the second waits");
    const small = rig.send(generateRequest({}, "small"));
    expect(await small.outcome).toBe("ok");
    expect(endpoint?.handOvers.waiting).toBe(1);
    wire.restore();
    expect([await first.outcome, await second.outcome]).toEqual(["ok", "ok"]);
    expect(endpoint?.handOvers.waiting).toBe(0);
  });

  test("whose caller leaves while it waits lets the next one go", async () => {
    const node = await engine(hello);
    const wire = await FaultyWire.start(node.address);
    closing.push(() => wire.close());
    const { rig } = await inFrontOf([wire]);
    const [endpoint] = rig.cluster.endpoints;
    wire.slow();
    const sent = Array.from({ length: 3 }, () => rig.send(big(4)));
    await until(() => endpoint?.handOvers.waiting === 2, "two wait");
    for (const one of sent.slice(0, 2)) one.leave();
    wire.restore();
    expect(await sent[2]?.outcome).toBe("ok");
    expect(endpoint?.handOvers.waiting).toBe(0);
  });
});
