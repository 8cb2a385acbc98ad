import { describe, expect, onTestFinished, test } from "vitest";
import { APART_MS } from "../../../gateway/upstream/retry/death-counter.ts";
import type { Event } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { ResumableNode, type ResumableNodeOptions, stepsOf } from "../../support/engine/resumable-node.ts";
import { reasoningStart, textStart, toolCallStart } from "../../support/events/events.ts";
import { FrontRig, type FrontRigOptions } from "../../support/gateway/front-rig.ts";
import { settle, settleUntil } from "../../support/gateway/upstream/settle.ts";
import { metricSum } from "../../support/metric-text.ts";
import { preferred } from "../../support/preferred.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { until } from "../../support/until.ts";

const PIECES = ["The ", "answer", " is 4", "2", ", of ", "course."];
const STEPS = stepsOf(textStart(0), ...PIECES);
const TEXT = PIECES.join("");

/** Resumable nodes, of which the first is preferred. */
async function nodes(...options: readonly Partial<ResumableNodeOptions>[]): Promise<ResumableNode[]> {
  return Promise.all(
    options.map(async (own) => {
      const node = await ResumableNode.start({ steps: STEPS, ...own });
      onTestFinished(() => node.node.stop());
      return node;
    }),
  );
}

async function inFrontOf(some: readonly ResumableNode[], options: FrontRigOptions = {}): Promise<FrontRig> {
  const { endpoints, ...policy } = preferred(some.map(({ address }) => address));
  const rig = new FrontRig(endpoints, {
    ...options,
    cluster: { ...policy, ...options.cluster },
    continuation: { maxBytes: 1_000_000, ...options.continuation },
  });
  onTestFinished(() => rig.close());
  return rig.ready();
}

/** The first call on each node stops after `steps` steps. */
const standsBehind = (steps: number) => ({ stopAfter: (call: number) => (call === 1 ? steps : undefined) });

const textOf = (events: readonly Event[]) =>
  events.map(({ kind }) => (kind?.$case === "blockDelta" ? kind.value.text : "")).join("");
const kindsOf = (events: readonly Event[]) => events.map(({ kind }) => kind?.$case);

async function standing(node: ResumableNode | undefined): Promise<void> {
  await until(() => (node?.standing ?? 0) > 0, "the node stands still");
}

type Lost = FrontRigOptions & { readonly folded?: boolean };

/** An answer whose first node is lost after `steps` steps, before other nodes. */
async function lostAfter(
  steps: number,
  others: readonly Partial<ResumableNodeOptions>[],
  { folded = false, ...options }: Lost = {},
  lost: Partial<ResumableNodeOptions> = standsBehind(steps),
) {
  const some = await nodes(lost, ...others);
  const rig = await inFrontOf(some, options);
  const sent = rig.send(generateRequest(), { folded });
  const [first, second, third] = some;
  await standing(first);
  first?.node.stop();
  return { rig, sent, first, second, third };
}

describe("an answer whose engine is lost", () => {
  test.each([
    ["streamed", false],
    ["folded", true],
  ])("an answer whose engine is lost continues at another one, as one answer, where it is %s", async (_how, folded) => {
    const { rig, sent, first, second } = await lostAfter(3, [{}], { folded });
    expect(await settle(rig, sent.outcome)).toBe("ok");
    expect(textOf(sent.events)).toBe(TEXT);
    expect(kindsOf(sent.events).filter((kind) => kind !== "blockDelta")).toEqual([
      "started",
      "blockStarted",
      "blockEnded",
      "finished",
    ]);
    expect(first?.calls[0]?.request).toMatchObject({ resumable: true, continuation: undefined });
    const continuation = { modelRevision: "r1", tokens: [1_000, 1_001, 1_002], callIds: [] };
    expect(second?.calls[0]?.request).toMatchObject({ resumable: true, continuation });
    expect(sent.calls).toMatchObject({ attempts: 2, continuedFrom: [3], failedAttempts: ["upstream_reset"] });
    expect(rig.continuationBudget).toMatchObject({ answers: 0, bytes: 0 });
    expect(metricSum(await rig.registry.metrics(), "svc_continuations_total", 'outcome="went_on"')).toBe(1);
    await rig.atRest();
  });

  test.each([1, 2, 3, 4, 5, 6])(
    "an answer whose engine is lost after %i steps: the rest is neither repeated nor left out",
    async (steps) => {
      const { rig, sent } = await lostAfter(steps, [{ inOnePiece: false }]);
      expect(await settle(rig, sent.outcome)).toBe("ok");
      expect(textOf(sent.events)).toBe(TEXT);
    },
  );

  test("an answer whose engine is lost is continued by another revision that has the same prompt, and by its own where there is no digest", async () => {
    const first = { ...standsBehind(3), promptDigest: "p1" };
    const own = await lostAfter(3, [{ revision: "r2", promptDigest: "p1" }], {}, first);
    expect(await settle(own.rig, own.sent.outcome)).toBe("ok");
    expect(textOf(own.sent.events)).toBe(TEXT);
    expect(own.second?.calls[0]?.request.continuation).toMatchObject({ modelRevision: "r1", promptDigest: "p1" });
    const older = await lostAfter(3, [{}], {}, first);
    expect(await settle(older.rig, older.sent.outcome)).toBe("ok");
    expect(textOf(older.sent.events)).toBe(TEXT);
  });

  test("an answer whose engine is lost is not continued where others render its prompt otherwise, and asks each of them once", async () => {
    const first = { ...standsBehind(3), promptDigest: "p1" };
    const others = { revision: "r2", promptDigest: "p2" };
    const { rig, sent, second, third } = await lostAfter(3, [others, others], {}, first);
    expect(await settle(rig, sent.outcome)).toBe("upstream_reset");
    expect(textOf(sent.events)).toBe("The answer is 4");
    expect([second?.calls.length, third?.calls.length]).toEqual([1, 1]);
  });

  test("an answer whose engine is lost continues at a third one after a wait, if others were lost with it twice", async () => {
    const always = { stopAfter: () => 3 };
    const [first, second, third] = await nodes(always, always, {});
    const rig = await inFrontOf([first, second, third] as ResumableNode[]);
    const sent = ["one", "two", "three"].map((text) => rig.send(generateRequest({}, text)));
    for (const node of [first, second]) {
      await settleUntil(rig, () => node?.standing === sent.length);
      node?.node.stop();
    }
    const lostMs = rig.clock.nowMs();
    for (const one of sent) {
      expect(await settle(rig, one.outcome)).toBe("ok");
      expect(textOf(one.events)).toBe(TEXT);
      expect(one.calls).toMatchObject({ attempts: 3, continuedFrom: [3, 3] });
    }
    expect(rig.clock.nowMs() - lostMs).toBeGreaterThanOrEqual(APART_MS);
    await rig.atRest();
  });

  test("an answer whose engine is lost restarts at a fourth one before its first output, with others lost beside it, while its caller waits", async () => {
    const always = { stopAfter: () => 0 };
    const some = await nodes(always, always, always, {});
    const rig = await inFrontOf(some);
    const sent = ["one", "two"].map((text) => rig.send(generateRequest({}, text), { keepsAlive: true }));
    for (const node of some.slice(0, 3)) {
      await settleUntil(rig, () => node.standing === sent.length);
      node.node.stop();
    }
    for (const one of sent) {
      expect(await settle(rig, one.outcome)).toBe("ok");
      expect(textOf(one.events)).toBe(TEXT);
      expect(one.calls).toMatchObject({ attempts: 4, continuedFrom: [] });
    }
    await rig.atRest();
  });

  test("an answer whose engine is lost keeps its calls and their ids, and its reasoning", async () => {
    const steps = [
      ...stepsOf(reasoningStart(0), "Let me", " see.").slice(0, -1),
      { token: 7, events: [{ kind: { $case: "blockEnded", value: { index: 0, complete: true } } }] satisfies Event[] },
      ...stepsOf(toolCallStart(1, "read", "call_x"), '{"path":', '"a\\', 'nb"}').map(({ token, events }) => ({
        token,
        events: events.map((event) => {
          const { kind } = event;
          if (kind?.$case !== "blockDelta" && kind?.$case !== "blockEnded") return event;
          return { kind: { ...kind, value: { ...kind.value, index: 1 } } } as Event;
        }),
      })),
    ];
    const [first, second] = await nodes({ steps, ...standsBehind(5) }, { steps });
    const rig = await inFrontOf([first, second] as ResumableNode[]);
    const sent = rig.send();
    await standing(first);
    first?.node.stop();
    expect(await settle(rig, sent.outcome)).toBe("ok");
    expect(second?.calls[0]?.request.continuation?.callIds).toEqual(["call_x"]);
    expect(textOf(sent.events)).toBe('Let me see.{"path":"a\\nb"}');
    expect(kindsOf(sent.events).filter((kind) => kind === "blockStarted")).toHaveLength(2);
  });

  test("H15 continues twice, and reports the cached tokens of the first engine", async () => {
    const some = await nodes(
      { ...standsBehind(2), started: { cachedInputTokens: 5 } },
      { ...standsBehind(4), started: { cachedInputTokens: 1 } },
      { started: { cachedInputTokens: 12 } },
    );
    const rig = await inFrontOf(some);
    const sent = rig.send();
    for (const node of some.slice(0, 2)) {
      await settleUntil(rig, () => node.standing > 0);
      node.node.stop();
    }
    expect(await settle(rig, sent.outcome)).toBe("ok");
    expect(textOf(sent.events)).toBe(TEXT);
    expect(sent.calls.continuedFrom).toEqual([2, 4]);
    const last = sent.events.at(-1)?.kind;
    expect(last?.$case === "finished" && last.value.usage).toMatchObject({ cachedInputTokens: 5, outputTokens: 7 });
  });

  test("an answer whose engine is lost is complete if only the status after its last event is missing", async () => {
    const { rig, sent } = await lostAfter(STEPS.length, [{}]);
    expect(await settle(rig, sent.outcome)).toBe("ok");
    expect(sent.calls.attempts).toBe(1);
  });

  test("an answer whose engine is lost is not dropped under memory pressure while another engine continues it", async () => {
    const { rig, sent } = await lostAfter(3, [{ inOnePiece: false }]);
    await until(() => sent.calls.failedAttempts.length > 0, "its end is known");
    await settleUntil(rig, () => rig.continuationBudget.releaseShare(1) > 0 || textOf(sent.events) === TEXT);
    expect(await settle(rig, sent.outcome)).toBe("ok");
    expect(textOf(sent.events)).toBe(TEXT);
  });

  test("an answer whose engine is lost waits for an endpoint that can continue it, which gets it at once", async () => {
    const [first, second, third] = await nodes(standsBehind(3), { canContinue: false }, {});
    const rig = await inFrontOf([first, second, third] as ResumableNode[]);
    const [lost = "", waited = ""] = [first?.address, third?.address];
    const eject = (...addresses: readonly string[]) =>
      rig.cluster.outliers.setOrdered(new Map(addresses.map((address) => [address, 3_600_000])), rig.clock.nowMs());
    eject(waited);
    const sent = rig.send();
    await standing(first);
    eject(lost, waited);
    first?.node.stop();
    await until(() => sent.calls.failedAttempts.length > 0, "its end is known");
    for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
    expect(sent.calls.attempts).toBe(1);
    // No time passes: only the endpoint ends the wait.
    eject(lost);
    expect(await sent.outcome).toBe("ok");
    expect(textOf(sent.events)).toBe(TEXT);
    expect(third?.calls).toHaveLength(1);
  });

  test("an answer whose engine is lost waits for the same engine to come back if there is no other", async () => {
    const [first] = await nodes(standsBehind(2));
    const rig = await inFrontOf([first] as ResumableNode[]);
    const sent = rig.send(generateRequest(), { keepsAlive: true });
    await standing(first);
    first?.node.crash();
    expect(await settle(rig, sent.outcome)).toBe("ok");
    expect(textOf(sent.events)).toBe(TEXT);
    expect(first?.calls).toHaveLength(2);
  });
});

describe("an answer whose engine is lost fails with it", () => {
  test("H16 if the other one generates a different answer: none of it is passed on", async () => {
    const other = stepsOf(textStart(0), "The ", "answer", " is 5", "2.");
    const { rig, sent } = await lostAfter(3, [{ steps: other }]);
    expect(await settle(rig, sent.outcome)).toBe("upstream_reset");
    expect(sent.calls.failedAttempts).toEqual(["upstream_reset", "upstream_other_answer"]);
    expect(textOf(sent.events)).toBe("The answer is 4");
    expect(metricSum(await rig.registry.metrics(), "svc_continuations_total", 'outcome="other_answer"')).toBe(1);
  });

  test.each([
    ["reports wrong tokens", { steps: STEPS.map(({ token, events }) => ({ token: token + 1, events })) }],
    ["has another revision", { described: "r2", revision: "r2" }],
    ["has another revision than it describes", { described: "r1", revision: "r2" }],
    ["cannot go on with answers", { canContinue: false }],
  ])("an answer whose engine is lost fails with it if the other one %s", async (_what, second) => {
    const { rig, sent } = await lostAfter(3, [second], { timeouts: { pendingMs: 1_000 } });
    expect(await settle(rig, sent.outcome)).toBe("upstream_reset");
    expect(textOf(sent.events)).toBe("The answer is 4");
  });

  test("an answer whose engine is lost fails with it if it was not kept for lack of room, and reports so", async () => {
    const { rig, sent, first } = await lostAfter(3, [{}], { continuation: { maxBytes: 100 } });
    expect(await settle(rig, sent.outcome)).toBe("upstream_reset");
    expect(first?.calls[0]?.request.resumable).toBe(false);
    expect(sent.calls).toMatchObject({ attempts: 1, notKeptFor: ["no_room"] });
    expect(metricSum(await rig.registry.metrics(), "svc_answers_not_kept_total", 'reason="no_room"')).toBe(1);
  });

  test("an answer whose engine is lost fails with it if it was dropped for lack of memory, and reports so", async () => {
    const [first, second] = await nodes(standsBehind(3), {});
    const rig = await inFrontOf([first, second] as ResumableNode[]);
    const sent = rig.send();
    await standing(first);
    expect(rig.continuationBudget.releaseShare(1)).toBe(1);
    expect(rig.continuationBudget).toMatchObject({ answers: 0, bytes: 0 });
    first?.node.stop();
    expect(await settle(rig, sent.outcome)).toBe("upstream_reset");
    expect(sent.calls).toMatchObject({ attempts: 1, notKeptFor: ["released"] });
    expect(second?.calls).toEqual([]);
    expect(metricSum(await rig.registry.metrics(), "svc_answers_not_kept_total", 'reason="released"')).toBe(1);
  });

  test("an answer whose engine is lost fails with it if a second engine is lost with it before a new token", async () => {
    const { rig, sent, second, third } = await lostAfter(3, [standsBehind(3), {}]);
    await settleUntil(rig, () => (second?.standing ?? 0) > 0);
    second?.node.stop();
    expect(await settle(rig, sent.outcome)).toBe("request_of_death");
    expect(third?.calls).toEqual([]);
    expect(metricSum(await rig.registry.metrics(), "svc_continuations_total", 'outcome="lost_too_often"')).toBe(1);
  });
});
