import { describe, expect, test } from "vitest";
import type { Admitted } from "../../../gateway/upstream/admission/place-search.ts";
import type { ClusterMember } from "../../../gateway/upstream/cluster-member.ts";
import { HealthCheckResponse_ServingStatus as Serving } from "../../../proto/gen/grpc/health/v1/health.ts";
import { admitted, admitting, fill } from "../../support/gateway/upstream/admission-rig.ts";
import { until } from "../../support/until.ts";

describe("never exceeds the concurrency limit", () => {
  test.each([
    { breakers: {}, nodeCount: 2, cap: 8, each: 4 },
    { breakers: { maxRequests: 5 }, nodeCount: 2, cap: 5, each: 4 },
    { breakers: { maxRequestsPerEndpoint: 1 }, nodeCount: 3, cap: 3, each: 1 },
  ])("$breakers on $nodeCount nodes: $cap", async ({ breakers, nodeCount, cap, each }) => {
    const { ask, admission } = await admitting(breakers, nodeCount);
    const inside = new Set<Admitted<ClusterMember>>();
    let most = 0;
    const perNode = new Map<string, number>();
    const visits = Array.from({ length: 20 }, async (_, index) => {
      const place = await admitted(ask(`key${index}`));
      const { address } = place.member.endpoint;
      inside.add(place);
      most = Math.max(most, inside.size);
      perNode.set(address, (perNode.get(address) ?? 0) + 1);
      expect(perNode.get(address)).toBeLessThanOrEqual(each);
      await new Promise((resolve) => setImmediate(resolve));
      inside.delete(place);
      perNode.set(address, (perNode.get(address) ?? 0) - 1);
      place.release();
      // The second release does not count.
      place.release();
    });
    // Some are refused where the queue is smaller than the load; admitted ones never exceed the cap.
    await Promise.allSettled(visits);
    expect(most).toBe(cap);
    expect(admission.breaker.activeAndPending).toBe(0);
  });
});

describe("waiting requests", () => {
  test("are served in the order of arrival", async () => {
    const { ask, admission } = await admitting({ maxRequests: 1 });
    const [first] = await fill(() => ask(), 1);
    const order: string[] = [];
    for (const name of ["one", "two", "three"]) {
      void admitted(ask("a", { text: name })).then((place) => {
        order.push(name);
        place.release();
      });
    }
    expect(admission.pending).toBe(3);
    first?.release();
    await until(() => order.length === 3, "all were served");
    expect(order).toEqual(["one", "two", "three"]);
  });

  test("take turns by key, however many one key has waiting", async () => {
    const { ask } = await admitting({ maxRequests: 1 });
    const [first] = await fill(() => ask("flood"), 1);
    const order: string[] = [];
    for (const key of ["flood", "flood", "flood", "small"]) {
      void admitted(ask(key, { text: "same" })).then((place) => {
        order.push(key);
        place.release();
      });
    }
    first?.release();
    await until(() => order.length === 4, "all were served");
    expect(order.indexOf("small")).toBeLessThanOrEqual(1);
  });

  test("keep their order while endpoints are full and the cluster is not", async () => {
    const { ask, clock, admission, cluster } = await admitting({ maxRequests: 10, maxRequestsPerEndpoint: 1 });
    const [first] = await fill(() => ask(), 1);
    const order: string[] = [];
    for (const name of ["one", "two", "three"]) {
      void admitted(ask("a", { text: name })).then((place) => {
        order.push(name);
        place.release();
      });
    }
    // Passes that find no room change nothing.
    for (let look = 0; look < 4; look += 1) await clock.advance(100);
    expect({ waiting: admission.pending, members: cluster.members.length }).toEqual({ waiting: 3, members: 1 });
    first?.release();
    await until(() => order.length === 3, "all were served");
    expect(order).toEqual(["one", "two", "three"]);
  });

  test("leave the queue at once when their caller disconnects", async () => {
    const { ask, admission } = await admitting({ maxRequests: 1 });
    await fill(() => ask(), 1);
    const waiting = ask();
    expect(admission.breaker.activeAndPending).toBe(2);
    waiting.leave();
    expect({ pending: admission.pending, running: admission.breaker.activeAndPending }).toEqual({
      pending: 0,
      running: 1,
    });
    await waiting.result;
  });

  test("are refused at their deadline", async () => {
    const { ask, clock } = await admitting({ maxRequests: 1 }, 1, 5_000);
    await fill(() => ask(), 1);
    const waiting = ask();
    await clock.advance(4_900);
    let over = false;
    void waiting.result.then(() => {
      over = true;
    });
    await clock.advance(0);
    expect(over).toBe(false);
    await clock.advance(200);
    expect(await waiting.result).toBe("pending_timeout");
  });

  test("alone behind a long generation keep their full deadline", async () => {
    const { ask, clock } = await admitting({ maxRequests: 1 });
    const [running] = await fill(() => ask(), 1);
    const waiting = ask();
    await clock.advance(29_900);
    running?.release();
    await admitted(waiting);
  });

  test("are served when an endpoint becomes healthy", async () => {
    const { ask, nodes, cluster, clock } = await admitting({ maxRequestsPerEndpoint: 1 }, 2);
    nodes[1]?.tell(Serving.NOT_SERVING);
    await until(() => cluster.healthyEndpoints.length === 1, "one is left");
    await fill(() => ask(), 1);
    const waiting = ask("b");
    nodes[1]?.tell(Serving.SERVING);
    await until(() => {
      void clock.advance(1_000);
      return cluster.healthyEndpoints.length === 2;
    }, "both are healthy");
    await clock.advance(200);
    expect((await admitted(waiting)).member.endpoint.address).toBe(nodes[1]?.address);
  });
});

describe("queue limits", () => {
  test("a key is limited; other keys still enter", async () => {
    const { ask } = await admitting({ maxRequests: 1, maxPendingRequests: 10, maxPendingRequestsPerKey: 2 });
    await fill(() => ask("a"), 1);
    const waiting = [ask("a"), ask("a")];
    expect(await ask("a").result).toBe("key_overflow");
    const other = ask("b");
    for (const one of [...waiting, other]) one.leave();
    await Promise.all([...waiting, other].map(({ result }) => result));
  });

  test("a full and fair queue refuses the next request", async () => {
    const { ask, admission } = await admitting({ maxRequests: 1, maxPendingRequests: 2 });
    await fill(() => ask("a"), 1);
    const waiting = [ask("a"), ask("b")];
    expect(await ask("c").result).toBe("pending_overflow");
    expect(admission.breakerState()).toMatchObject({ pendingOpen: true, pendingOverflows: 1 });
    for (const one of waiting) one.leave();
    await Promise.all(waiting.map(({ result }) => result));
    expect(admission.breaker.activeAndPending).toBe(1);
  });

  test("a queue full of one key drops one of its requests for another key", async () => {
    const { ask, admission } = await admitting({ maxRequests: 1, maxPendingRequests: 3 });
    await fill(() => ask("flood"), 1);
    const flood = [ask("flood"), ask("flood"), ask("flood")];
    const small = ask("small");
    expect(await flood[0]?.result).toBe("pending_overflow");
    expect(admission.pending).toBe(3);
    for (const one of [...flood, small]) one.leave();
    await Promise.all([...flood, small].map(({ result }) => result));
    expect(admission.breaker.activeAndPending).toBe(1);
  });
});

describe("refused without waiting", () => {
  test("no endpoint is available", async () => {
    const { ask, nodes, cluster } = await admitting();
    nodes[0]?.tell(Serving.NOT_SERVING);
    await until(() => cluster.healthyEndpoints.length === 0, "none is healthy");
    expect(await ask().result).toBe("none_available");
  });

  test("all endpoints were attempted", async () => {
    const { ask, nodes } = await admitting();
    expect(await ask("a", { tried: new Set(nodes.map(({ address }) => address)) }).result).toBe("all_tried");
  });
});

test("the expected wait follows the rate of service", async () => {
  const { ask, admission, clock } = await admitting({ maxRequests: 1, maxPendingRequestsPerKey: 100 });
  let [running] = await fill(() => ask(), 1);
  const waiting = Array.from({ length: 8 }, () => ask());
  expect(admission.drainMs()).toBeUndefined();
  for (const one of waiting.slice(0, 4)) {
    await clock.advance(500);
    running?.release();
    running = await admitted(one);
  }
  expect(admission.drainMs()).toBe(5 * 500);
  for (const one of waiting) one.leave();
});

test("close refuses all waiting requests", async () => {
  const { ask, admission } = await admitting({ maxRequests: 1 });
  await fill(() => ask(), 1);
  const waiting = ask();
  admission.close();
  expect(await waiting.result).toBe("no_endpoints");
  expect(admission.breaker.activeAndPending).toBe(1);
});

describe("places reserved for other tenants", () => {
  test("a tenant leaves as many as others wanted within the last minute", async () => {
    const { ask, admission, clock } = await admitting({}, 2);
    for (const place of await fill(() => ask("other"), 2)) place.release();
    const flood = await fill(() => ask("flood"), 6);
    const waiting = Array.from({ length: 10 }, () => ask("flood"));
    expect(admission.pending).toBe(10);
    // Requests of another tenant do not wait, and pass those that are refused a place.
    const others = await fill(() => ask("other"), 2);
    const third = ask("third");
    expect(admission.pending).toBe(11);
    others[0]?.release();
    const last = await admitted(third);
    expect(admission.pending).toBe(10);
    // Three have arrived by now.
    flood[0]?.release();
    expect(admission.pending).toBe(10);
    flood[1]?.release();
    await admitted(waiting[0] ?? ask());
    expect(admission.pending).toBe(9);
    // No other tenant has sent a request for a minute: nothing is reserved any more.
    others[1]?.release();
    last.release();
    expect(admission.pending).toBe(9);
    await clock.advance(30_001);
    await clock.advance(30_001);
    await fill(() => ask("flood"), 3);
  });

  test("a single tenant takes all places", async () => {
    const { ask } = await admitting({}, 2);
    await fill(() => ask("alone"), 8);
  });
});
