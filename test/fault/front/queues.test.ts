import { describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { NodeClient } from "../../support/engine/node-client.ts";
import { ANSWER_PATHS, type AnswerPath, bodyFor, endOf } from "../../support/http/answer-check.ts";
import type { EngineProcess } from "../../support/processes/engine-process.ts";
import { expectOverloaded, FaultBunch } from "../../support/processes/fault-bunch.ts";
import { FRONT_MODELS, outcomeOf, startFront } from "../../support/processes/fault-front.ts";
import { Fleet, healthy } from "../../support/processes/fleet.ts";
import type { GatewayProcess } from "../../support/processes/gateway-process.ts";
import { openStreams } from "../../support/processes/open-streams.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { covering } from "../../support/size.ts";

/* No capacity: in one engine, in all of them, and for one key in the gateway's queue. */

const fleet = new Fleet();

const ENDLESS = { tokensPerSecond: 10, answerTokens: { min: 5_000, max: 5_000 } };
const PLACES = ["all nodes", "a key"] as const;
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
  async function fullNode(name: string): Promise<EngineProcess> {
    const node = await fleet.engine(name, ONE_PLACE, FRONT_MODELS);
    const client = new NodeClient(node.address);
    fleet.onEnd(() => client.close());
    await client.generate(generateRequest({})).seen("blockDelta");
    return node;
  }

  /** A gateway that does not count slots, in front of a node whose only slot is taken, and of others. */
  async function inFrontOfFull(others: readonly EngineProcess[]): Promise<GatewayProcess> {
    const nodes = [await fullNode("full"), ...others];
    const gateway = await startFront(
      nodes.map(({ address }) => address),
      { maxRequestsPerEndpoint: 100 },
    );
    fleet.onEnd(() => gateway.end());
    for (const { address } of nodes) await healthy(gateway, address);
    return gateway;
  }

  test("H8 on one: another answers; without another the reply has a retry delay", async () => {
    const good = await fleet.engine("good", {}, FRONT_MODELS);
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
    const second = await fullNode("second");
    const gateway = await inFrontOfFull([second]);
    for (const stream of [true, false]) {
      const answer = await gateway.post(path, bodyFor(path, "hi", { stream }));
      await expectComeBack(gateway, path, answer, "upstream_queue_full", { attempts: 2, response_flags: "UO,URX" });
    }
    // A full queue does not affect health.
    expect(await gateway.health(second.address)).toBe("healthy");
  });
});

test.each(pathsOf("a key"))("H8 a key of %s with too many that wait is 429; others wait on", async (path) => {
  const nodes = await fleet.engines(1, ENDLESS);
  const circuitBreakers = { maxRequestsPerEndpoint: 1, maxPendingRequests: 3 };
  const gateway = await fleet.inFrontOf(nodes, { circuitBreakers });
  await openStreams(gateway, 1);
  const bounded = await gateway.createKey("--models", "all", "--name", "bounded", "--queued", "2");
  const leaving = new AbortController();
  fleet.onEnd(() => leaving.abort());
  const wait = async (key: string, count: number) => {
    gateway.post(ANSWER_PATHS[0], bodyFor(ANSWER_PATHS[0], "hi"), leaving.signal, key).catch(() => {});
    const pending = () => gateway.stat("svc_cluster_upstream_rq_pending_active");
    await becomes(async () => (await pending()) === count, `${count} wait`);
  };
  await wait(bounded, 1);
  await wait(bounded, 2);
  for (const stream of [true, false]) {
    const answer = await gateway.post(path, bodyFor(path, "hi", { stream }), undefined, bounded);
    const { status, text, log } = await outcomeOf(gateway, answer);
    expect({ status, detail: log.detail, flags: log.response_flags }).toEqual({
      ...{ status: 429, detail: "key_pending_overflow", flags: "RL" },
    });
    expect(JSON.parse(text).error).toMatchObject(
      path === "/v1/messages" ? { type: "rate_limit_error" } : { type: "requests", code: "rate_limit_exceeded" },
    );
    expectRetryHeaders(answer);
  }
  await wait(await gateway.createKey("--models", "all", "--name", "other"), 3);
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
