import { describe, expect, onTestFinished, test } from "vitest";
import { EngineError, toFailedCall } from "../../../engine/errors.ts";
import { type Event, FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { HealthNode } from "../../support/engine/health-node.ts";
import { lostMidway } from "../../support/engine/lost-midway.ts";
import type { Script } from "../../support/engine/scripted-backend.ts";
import { blockEnd, delta, finished, started, textAnswer, textStart } from "../../support/events/events.ts";
import { CallNotes, encoded, FrontRig, HINTS } from "../../support/gateway/front-rig.ts";
import {
  callsOf,
  engine,
  failsAt,
  hello,
  inFrontOf,
  routed,
  staysAt,
  wired,
} from "../../support/gateway/upstream/routed.ts";
import { settle, settleUntil } from "../../support/gateway/upstream/settle.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { until } from "../../support/until.ts";

describe("a failed attempt", () => {
  const reading: Event = { kind: { $case: "progress", value: { queuePosition: 0, prefilledTokens: 0, step: 1 } } };
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
    [
      "because its queue is full, after a keep-alive",
      async function* () {
        yield [reading];
        throw new EngineError("QUEUE_FULL", "full");
      },
    ],
    ["by breaking the protocol", () => [[started(), textStart(7)]]],
    ["by ending too early", () => [[started(), textStart(0)]]],
  ];

  test.each(beforeDelta)("%s is retried on another endpoint, unseen", async (_when, script) => {
    const { rig, engines } = await routed([script, hello]);
    const sent = rig.send();
    await until(() => sent.calls.attempts >= 1, "the first try");
    expect(await settle(rig, sent.outcome)).toBe("ok");
    expect(sent.calls).toMatchObject({ attempts: 2, endpoint: engines[1]?.address });
    expect(sent.calls.failedAttempts).toHaveLength(1);
    expect(sent.events.filter(({ kind }) => !["started", "progress"].includes(kind?.$case ?? ""))).toEqual(
      textAnswer("Hello.").slice(1),
    );
    await rig.atRest();
  });

  test("a failed attempt after the first delta is the answer's failure", async () => {
    const { rig, engines } = await routed([lostMidway, hello]);
    const sent = rig.send();
    expect(await sent.outcome).toBe("upstream_reset");
    expect(callsOf(engines)).toEqual([1, 0]);
    expect(sent.events.at(-1)).toEqual(delta(0, "half"));
    await rig.atRest();
  });

  test("a failed attempt after the first delta is retried if nothing has left the gateway", async () => {
    const { rig } = await routed([lostMidway, hello]);
    const sent = rig.send(generateRequest(), { folded: true });
    expect(await settle(rig, sent.outcome)).toBe("ok");
    expect(sent.events).toEqual(textAnswer("Hello."));
  });

  test("a failed attempt does not reuse the slot of a lost endpoint", async () => {
    const wires = await wired(staysAt([started()]), staysAt([started()]));
    const { rig } = await inFrontOf(wires, { cluster: { circuitBreakers: { maxRequestsPerEndpoint: 1 } } });
    const running = ["one", "two"].map((text) => rig.send(generateRequest({}, text)));
    await until(() => running.every(({ events }) => events.length === 1), "both have a place");
    const waiting = rig.send(generateRequest({}, "three"));
    await until(() => rig.router.traffic[0]?.admission.pending === 1, "one waits");
    wires[0]?.cut();
    await until(() => running[0]?.calls.failedAttempts.length === 1, "the loss is noticed");
    for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
    expect(waiting.calls.attempts).toBe(0);
    for (const { leave, outcome } of [...running, waiting]) {
      leave();
      await outcome;
    }
  });

  test.each([
    ["INVALID_REQUEST", "engine_invalid_request"],
    ["INVALID_SCHEMA", "engine_invalid_schema"],
    ["UNSUPPORTED_FEATURE", "engine_unsupported_feature"],
    ["CONTEXT_WINDOW_EXCEEDED", "context_length_exceeded"],
  ] as const)(
    "a failed attempt with %s after a keep-alive is neither retried nor counted for ejection",
    async (reason, detail) => {
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
    },
  );

  test.each([
    [2, [1, 1]],
    [4, [1, 1, 1, 0]],
  ])("a failed attempt is retried twice, each time on another endpoint, of %i that there are", async (count, calls) => {
    const { rig, engines } = await routed(Array.from({ length: count }, () => failsAt([])));
    const { outcome } = rig.send();
    expect(await settle(rig, outcome)).toBe("upstream_reset");
    expect(callsOf(engines)).toEqual(calls);
    await rig.atRest();
  });

  test("a failed attempt is not retried when the budget is used up; a retry counts until it is answered", async () => {
    const { rig } = await routed([failsAt([]), staysAt([started()])]);
    const budget = rig.router.traffic[0]?.budget;
    for (let taken = 0; taken < 15; taken += 1) budget?.take("budget", 0);
    const retried = rig.send();
    await settleUntil(rig, () => retried.calls.attempts === 2, "it is retried");
    const next = rig.send(generateRequest({}, "next"));
    expect(await next.outcome).toBe("upstream_reset");
    expect(next.calls.attempts).toBe(1);
    expect(budget).toMatchObject({ activeRetries: 16, overflows: 1 });
    retried.leave();
    await retried.outcome;
    expect(budget?.activeRetries).toBe(15);
  });

  test("a failed attempt no longer counts in the budget once its answer has begun", async () => {
    const { rig } = await routed([failsAt([]), staysAt([started(), textStart(0), delta(0, "a")])]);
    const sent = rig.send();
    await settleUntil(rig, () => sent.events.length > 2, "the answer has begun");
    expect(rig.router.traffic[0]?.budget.activeRetries).toBe(0);
    sent.leave();
    await sent.outcome;
    await rig.atRest();
  });
});

describe("a caller that disconnects", () => {
  test("a caller that disconnects during the inspection of its big prompt costs no call", async () => {
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
  ])("a caller that disconnects %s frees everything of its request", async (_when, script) => {
    const { rig, engines } = await routed([script]);
    const sent = rig.send();
    await until(() => engines[0]?.backend.load().busySlots === 1, "the engine works");
    sent.leave();
    expect(await sent.outcome).toBe("downstream_remote_disconnect");
    await rig.atRest();
    await until(() => engines[0]?.backend.load().busySlots === 0, "the engine is free");
  });

  test("while it waits leaves every queue, and never reaches an engine", async () => {
    const circuitBreakers = { maxRequestsPerEndpoint: 1 };
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

  test("a caller that disconnects between two attempts gets no second one", async () => {
    const { rig, engines } = await routed([failsAt([]), hello], { router: { random: () => 0.9 } });
    const sent = rig.send();
    await until(() => rig.router.traffic[0]?.budget.activeRetries === 1, "the wait");
    sent.leave();
    expect(await sent.outcome).toBe("downstream_remote_disconnect");
    expect(callsOf(engines)).toEqual([1, 0]);
    await rig.atRest();
  });
});

test("a request finds no slot in a cluster without an endpoint", async () => {
  const rig = new FrontRig([]);
  onTestFinished(() => rig.close());
  expect(await rig.send().outcome).toBe("no_healthy_upstream");
});

test("an endpoint that reports when it has room again gets no calls until then", async () => {
  const full = await HealthNode.start({ models: ["svc-qwen"] });
  full.refusal = toFailedCall(new EngineError("QUEUE_FULL", "full"), 30_000);
  onTestFinished(() => full.stop());
  const { rig } = await inFrontOf([full, await engine(hello)]);
  const ask = async (text: string) => {
    const { outcome } = rig.send(generateRequest({}, text));
    expect(await settle(rig, outcome)).toBe("ok");
  };
  for (const text of ["one", "two", "three"]) await ask(text);
  expect(full.generations).toBe(1);
  await rig.clock.advance(30_000);
  await ask("four");
  expect(full.generations).toBe(2);
});

test("if all endpoints are full, the caller gets a retry delay, spread by a fifth", async () => {
  for (const [draw, expected] of [
    [0, 8_000],
    [0.5, 10_000],
  ] as const) {
    const full = await HealthNode.start({ models: ["svc-qwen"] });
    full.refusal = toFailedCall(new EngineError("QUEUE_FULL", "full"), 10_000);
    onTestFinished(() => full.stop());
    const { rig } = await inFrontOf([full], { router: { random: () => draw } });
    const sink = { events: () => {} };
    const request = { ...encoded(generateRequest()), hints: HINTS, timeoutMs: 60_000, keepsAlive: false };
    const recorded = { ...request, sink, record: new CallNotes() };
    const dispatched = rig.router.dispatch(recorded, new AbortController().signal);
    await expect(dispatched).rejects.toMatchObject({ detail: "upstream_queue_full", retryAfterMs: expected });
  }
});

describe("an endpoint that fails repeatedly", () => {
  test("an endpoint that fails repeatedly is ejected after five failures in a row, and returns in slow start", async () => {
    const { rig, engines } = await routed([failsAt([]), hello]);
    const [bad] = engines;
    for (let index = 0; index < 8; index += 1) {
      const { outcome } = rig.send(generateRequest({}, `request ${index}`));
      expect(await settle(rig, outcome)).toBe("ok");
    }
    expect(bad?.backend.requests).toHaveLength(5);
    const health = () => rig.cluster.member(bad?.address ?? "")?.healthText(rig.clock.nowMs());
    expect(health()).toBe("/failed_outlier_check");
    const metric = await rig.registry.getSingleMetricAsString("svc_cluster_outlier_ejections_total");
    expect(metric).toContain('enforced="true"} 1');
    await rig.clock.advance(15_000);
    expect(health()).toBe("healthy");
    const back = rig.cluster.member(bad?.address ?? "");
    expect(rig.clock.nowMs() - (back?.healthySinceMs ?? 0)).toBeLessThan(15_000);
    expect(back?.healthySinceMs).toBeGreaterThanOrEqual(15_000);
  });
});

test("concurrent answers end each with its own text", async () => {
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
