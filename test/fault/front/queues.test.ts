import { describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { ANSWER_PATHS, type AnswerPath, bodyFor, endOf } from "../../support/http/answer-check.ts";
import { EngineProcess } from "../../support/processes/engine-process.ts";
import { expectOverloaded, FaultBunch } from "../../support/processes/fault-bunch.ts";
import { FRONT_MODELS, outcomeOf, startFront } from "../../support/processes/fault-front.ts";
import { Fleet, healthy } from "../../support/processes/fleet.ts";
import type { GatewayProcess } from "../../support/processes/gateway-process.ts";
import { openStreams } from "../../support/processes/open-streams.ts";
import { covering } from "../../support/size.ts";

/* No capacity: in one engine, in all of them, and in the gateway's queue. */

const fleet = new Fleet();

const ENDLESS = { tokensPerSecond: 10, answerTokens: { min: 5_000, max: 5_000 } };
const OF_ALL_MODELS = ["--models", "all"];
const PLACES = ["all nodes", "a key", "the queue"] as const;
/** Without FULL=1 every place and every format, but not each with each. */
const ROWS = covering(
  PLACES.flatMap((place) => ANSWER_PATHS.map((path) => ({ place, path }))),
  ({ place }) => place,
  ({ path }) => path,
);
const pathsOf = (wanted: (typeof PLACES)[number]) =>
  ROWS.filter(({ place }) => place === wanted).map(({ path }) => path);
const ONE_PLACE = { ...ENDLESS, slots: 1, queueLength: 0 };

describe("H8 the queue of a node is full", () => {
  /** A gateway that does not count slots, in front of a node whose only slot is taken, and of others. */
  async function inFrontOfFull(others: readonly EngineProcess[]): Promise<GatewayProcess> {
    const full = await fleet.engine("full", ONE_PLACE, FRONT_MODELS);
    const filling = await startFront([full.address]);
    fleet.onEnd(() => filling.end());
    await healthy(filling, full.address);
    await openStreams(filling, 1);
    const nodes = [full, ...others];
    const gateway = await startFront(
      nodes.map(({ address }) => address),
      { maxRequestsPerEndpoint: 100 },
    );
    fleet.onEnd(() => gateway.end());
    for (const { address } of nodes) await healthy(gateway, address);
    return gateway;
  }

  test("H8 on one: another answers; without another the reply has a retry delay", async () => {
    const good = await EngineProcess.start("good", {}, FRONT_MODELS);
    fleet.onEnd(() => good.kill());
    const gateway = await inFrontOfFull([good]);
    const outcomes = await FaultBunch.send(gateway).outcomes();
    for (const [{ path, stream, model }, { status, text, log }] of outcomes) {
      if (model === FRONT_MODELS[0]) {
        expect(log).toMatchObject({ code: 200, endpoint: good.address, end_reason: "complete" });
        if (stream) expect(endOf(path, text)).toEqual({ end: "complete" });
      } else {
        expect(status).toBe(path === "/v1/messages" ? 529 : 503);
        expect(log.detail).toBe("upstream_queue_full");
        expectOverloaded(path, text);
      }
    }
    // Once a node has reported that it is full, others may be tried first.
    expect(Math.max(...[...outcomes.values()].map(({ log }) => log.attempts ?? 0))).toBe(2);
    expect(await gateway.open()).toBe(0);
  });

  test.each(pathsOf("all nodes"))("H8 on all: %s gets the retry delay of its format", async (path) => {
    const second = await EngineProcess.start("second", ONE_PLACE, FRONT_MODELS);
    fleet.onEnd(() => second.kill());
    const filling = await startFront([second.address]);
    fleet.onEnd(() => filling.end());
    await healthy(filling, second.address);
    await openStreams(filling, 1);
    const gateway = await inFrontOfFull([second]);
    for (const stream of [true, false]) {
      const answer = await gateway.post(path, bodyFor(path, "hi", { stream }));
      await expectComeBack(gateway, path, answer, "upstream_queue_full", { attempts: 2, response_flags: "UO,URX" });
    }
    // A full queue does not affect health.
    expect(await gateway.health(second.address)).toBe("healthy");
  });
});

describe("the gateway's own queue", () => {
  async function full(circuitBreakers: object) {
    const [node] = await fleet.engines(1, ENDLESS);
    if (!node) throw new Error("a node was started");
    const breakers = {
      maxRequestsPerEndpoint: 1,
      maxPendingRequests: 3,
      maxPendingRequestsPerKey: 2,
      ...circuitBreakers,
    };
    const gateway = await fleet.inFrontOf([node], { circuitBreakers: breakers });
    await openStreams(gateway, 1);
    const waits = (count: number) =>
      becomes(async () => (await gateway.stat("svc_cluster_upstream_rq_pending_active")) === count, `${count} wait`);
    const leaving = new AbortController();
    fleet.onEnd(() => leaving.abort());
    const wait = (key: string) => {
      const waiting = gateway.post(ANSWER_PATHS[0], bodyFor(ANSWER_PATHS[0], "hi"), leaving.signal, key);
      waiting.catch(() => {});
      return waiting;
    };
    return { gateway, waits, wait };
  }

  test.each(pathsOf("a key"))("H8 a key of %s with too many that wait is 429; others wait on", async (path) => {
    const { gateway, waits, wait } = await full({});
    void wait(gateway.key);
    void wait(gateway.key);
    await waits(2);
    for (const stream of [true, false]) {
      const answer = await gateway.post(path, bodyFor(path, "hi", { stream }));
      const { status, text, log } = await outcomeOf(gateway, answer);
      expect({ status, detail: log.detail, flags: log.response_flags }).toEqual({
        ...{ status: 429, detail: "key_pending_overflow", flags: "RL" },
      });
      expect(JSON.parse(text).error).toMatchObject(
        path === "/v1/messages" ? { type: "rate_limit_error" } : { type: "requests", code: "rate_limit_exceeded" },
      );
      expectRetryHeaders(answer);
    }
    const other = await gateway.createKey(...OF_ALL_MODELS, "--name", "other");
    void wait(other);
    await waits(3);
  });

  test.each(pathsOf("the queue"))(
    "H8 a full queue is overload for %s, and admits a key without waiting requests",
    async (path) => {
      const { gateway, waits, wait } = await full({ maxPendingRequests: 2 });
      const dropped = [wait(gateway.key), wait(gateway.key)];
      await waits(2);
      const [second, third] = [
        await gateway.createKey(...OF_ALL_MODELS, "--name", "second"),
        await gateway.createKey(...OF_ALL_MODELS, "--name", "third"),
      ];
      void wait(second);
      // The request of the largest key with the earliest timeout is dropped.
      const [first] = dropped;
      await expectComeBack(gateway, ANSWER_PATHS[0], (await first) as Response, "upstream_pending_overflow");
      await waits(2);
      for (const stream of [true, false]) {
        const answer = await gateway.post(path, bodyFor(path, "hi", { stream }), undefined, third);
        await expectComeBack(gateway, path, answer, "upstream_pending_overflow");
      }
    },
  );
});

async function expectComeBack(
  gateway: GatewayProcess,
  path: AnswerPath,
  answer: Response,
  detail: string,
  more: object = { response_flags: "UO" },
): Promise<void> {
  const { status, text, log } = await outcomeOf(gateway, answer);
  expect({ status, detail: log.detail }).toEqual({ status: path === "/v1/messages" ? 529 : 503, detail });
  expect(log).toMatchObject(more);
  expectOverloaded(path, text);
  expectRetryHeaders(answer);
}

function expectRetryHeaders({ headers }: Response): void {
  expect(headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
  expect(Number(headers.get("retry-after-ms"))).toBeGreaterThan(0);
  expect(headers.get("x-should-retry")).not.toBe("false");
}
