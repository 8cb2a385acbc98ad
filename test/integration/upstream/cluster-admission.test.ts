import { afterEach, describe, expect, test } from "vitest";
import {
  type Admitted,
  type AdmittedCluster,
  ClusterAdmission,
  type NotAdmitted,
} from "../../../gateway/upstream/cluster-admission.ts";
import { Balancer } from "../../../gateway/upstream/load-balancing/balancer.ts";
import type { EndpointView } from "../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { EndpointViews } from "../../../gateway/upstream/load-balancing/endpoint-views.ts";
import type { RoutingHints } from "../../../gateway/upstream/load-balancing/routing-hints.ts";
import { HealthCheckResponse_ServingStatus as Serving } from "../../../proto/gen/grpc/health/v1/health.ts";
import { HealthNode } from "../../support/engine/health-node.ts";
import { endpointWith } from "../../support/gateway/endpoint-with.ts";
import { FrontRig, HINTS, routeFor } from "../../support/gateway/front-rig.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { until } from "../../support/until.ts";

const opened: { close(): void }[] = [];

afterEach(() => {
  for (const one of opened.splice(0).reverse()) one.close();
});

type Asked = { readonly result: Promise<Admitted | NotAdmitted>; readonly leave: () => void };

/** Admission in front of nodes that run four requests each, unless `circuitBreakers` says otherwise. */
async function admitting(circuitBreakers: object = {}, nodeCount = 1, timeoutMs = 30_000, settings: object = {}) {
  const nodes = await Promise.all(Array.from({ length: nodeCount }, () => HealthNode.start({ models: ["svc-qwen"] })));
  for (const node of nodes) opened.push({ close: () => node.stop() });
  const rig = new FrontRig(
    nodes.map(({ address }) => address),
    { cluster: { circuitBreakers, ...settings } },
  );
  opened.push(rig);
  await rig.ready();
  const { cluster, manager, clock } = rig;
  const admission = new ClusterAdmission(
    cluster,
    new Balancer(cluster, manager.work, clock, () => 0.5),
    clock,
    () => 0.5,
  );
  opened.push(admission);
  const ask = (
    key = "a",
    given: {
      hints?: Partial<RoutingHints>;
      tried?: Set<string>;
      text?: string;
      mayHold?: boolean;
      bytes?: number;
      underWay?: boolean;
    } = {},
  ) => {
    const controller = new AbortController();
    const hints = { ...HINTS, keyId: key, ...given.hints };
    const { tried = new Set(), mayHold = false, bytes = 0, underWay = false } = given;
    const route = routeFor(generateRequest({}, given.text ?? key), hints);
    const result = admission.acquire(
      { route, tenant: key, hints, tried, timeoutMs, mayHold, bytes, underWay },
      controller.signal,
    );
    return { result, leave: () => controller.abort() } satisfies Asked;
  };
  return { ...rig, cluster, clock, nodes, admission, ask };
}

async function admitted({ result }: Asked): Promise<Admitted> {
  const place = await result;
  if (typeof place === "string") throw new Error(`not admitted: ${place}`);
  return place;
}

/** Takes places until none is left. */
async function fill(ask: () => Asked, count: number): Promise<Admitted[]> {
  return Promise.all(Array.from({ length: count }, () => admitted(ask())));
}

describe("never more at once than allowed", () => {
  test.each([
    { breakers: {}, nodeCount: 2, cap: 8, each: 4 },
    { breakers: { maxRequests: 5 }, nodeCount: 2, cap: 5, each: 4 },
    { breakers: { maxRequestsPerEndpoint: 1 }, nodeCount: 3, cap: 3, each: 1 },
  ])("$breakers on $nodeCount nodes: $cap", async ({ breakers, nodeCount, cap, each }) => {
    const { ask, admission } = await admitting(breakers, nodeCount);
    const inside = new Set<Admitted>();
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
      // Counts once.
      place.release();
    });
    // Some are refused where fewer than all may wait; those who are admitted never exceed the cap.
    await Promise.allSettled(visits);
    expect(most).toBe(cap);
    expect(admission.breaker.activeAndPending).toBe(0);
  });
});

describe("those who wait", () => {
  test("are served in the order of arrival, and nobody passes them", async () => {
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

  test("keep their order while the endpoints have no room although the cluster has", async () => {
    const { ask, clock, admission, cluster } = await admitting({ maxRequests: 10, maxRequestsPerEndpoint: 1 });
    const [first] = await fill(() => ask(), 1);
    const order: string[] = [];
    for (const name of ["one", "two", "three"]) {
      void admitted(ask("a", { text: name })).then((place) => {
        order.push(name);
        place.release();
      });
    }
    // Looks that find no room change nothing.
    for (let look = 0; look < 4; look += 1) await clock.advance(100);
    expect({ waiting: admission.pending, members: cluster.members.length }).toEqual({ waiting: 3, members: 1 });
    first?.release();
    await until(() => order.length === 3, "all were served");
    expect(order).toEqual(["one", "two", "three"]);
  });

  test("leave the queue at once when their caller leaves", async () => {
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

  test("do not wait longer than their time", async () => {
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

  test("alone behind a long generation have all their time", async () => {
    const { ask, clock } = await admitting({ maxRequests: 1 });
    const [running] = await fill(() => ask(), 1);
    const waiting = ask();
    await clock.advance(29_900);
    running?.release();
    await admitted(waiting);
  });

  test("where more come than are served for several generations, are served newest first", async () => {
    const { ask, clock, admission } = await admitting({ maxRequests: 1, maxPendingRequests: 100 });
    let [running] = await fill(() => ask(), 1);
    const order: number[] = [];
    for (let second = 0; second < 40; second += 1) {
      void ask().result.then(async (place) => {
        if (typeof place === "string") return;
        order.push(second);
        running = place;
      });
      await clock.advance(1_000);
      if (second % 3 === 2) running?.release();
      await clock.advance(0);
    }
    expect(order.slice(0, 7)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    // One generation takes three seconds: whoever came last is served, and nobody waits for more than a few.
    expect(order.slice(-3)).toEqual([32, 35, 38]);
    expect(admission.pending).toBeLessThan(10);
  });

  test("are served when an endpoint gets healthy that was not", async () => {
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

describe("bounds of the queue", () => {
  test("a key has so many places in it; others still get in", async () => {
    const { ask } = await admitting({ maxRequests: 1, maxPendingRequests: 10, maxPendingRequestsPerKey: 2 });
    await fill(() => ask("a"), 1);
    const waiting = [ask("a"), ask("a")];
    expect(await ask("a").result).toBe("key_overflow");
    const other = ask("b");
    for (const one of [...waiting, other]) one.leave();
    await Promise.all([...waiting, other].map(({ result }) => result));
  });

  test("where it is full, and fair already, the next one gets no place", async () => {
    const { ask, admission } = await admitting({ maxRequests: 1, maxPendingRequests: 2 });
    await fill(() => ask("a"), 1);
    const waiting = [ask("a"), ask("b")];
    expect(await ask("c").result).toBe("pending_overflow");
    expect(admission.breakerState()).toMatchObject({ pendingOpen: true, pendingOverflows: 1 });
    for (const one of waiting) one.leave();
    await Promise.all(waiting.map(({ result }) => result));
    expect(admission.breaker.activeAndPending).toBe(1);
  });

  test("where it is full of one key's requests, one of them makes room for another key", async () => {
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

describe("at once, without waiting", () => {
  test("no endpoint is available", async () => {
    const { ask, nodes, cluster } = await admitting();
    nodes[0]?.tell(Serving.NOT_SERVING);
    await until(() => cluster.healthyEndpoints.length === 0, "none is healthy");
    expect(await ask().result).toBe("none_available");
  });

  test("all endpoints had their try", async () => {
    const { ask, nodes } = await admitting();
    expect(await ask("a", { tried: new Set(nodes.map(({ address }) => address)) }).result).toBe("all_tried");
  });
});

describe("while no endpoint is available", () => {
  /** Admission in front of one node that is healthy at once when it serves, and how to take it out and back in. */
  async function withOutage(circuitBreakers: object = {}, timeoutMs = 30_000) {
    const rig = await admitting(circuitBreakers, 1, timeoutMs, { healthChecks: { healthyThreshold: 1 } });
    const becomes = async (serving: Serving, healthy: number) => {
      rig.nodes[0]?.tell(serving);
      await until(() => rig.cluster.healthyEndpoints.length === healthy, `${healthy} healthy`);
      await rig.clock.advance(0);
    };
    const lose = () => becomes(Serving.NOT_SERVING, 0);
    const comeBack = () => becomes(Serving.SERVING, 1);
    const hold = (key = "a", given: Parameters<typeof rig.ask>[1] = {}) => rig.ask(key, { ...given, mayHold: true });
    return { ...rig, lose, comeBack, hold };
  }

  test("who may be held is, newcomers like those who wait, and served in the order of the queue when one is back", async () => {
    const { ask, hold, lose, comeBack, clock, admission } = await withOutage({ maxRequests: 1 });
    const [running] = await fill(() => ask(), 1);
    const order: string[] = [];
    const note = (name: string, asked: Asked) =>
      void admitted(asked).then((place) => {
        order.push(name);
        place.release();
      });
    note("waited", hold());
    await lose();
    running?.release();
    note("came", hold());
    expect(admission.held).toMatchObject({ requests: 2 });
    await clock.advance(119_000);
    expect(admission.pending).toBe(2);
    await comeBack();
    await until(() => order.length === 2, "both were served");
    expect(order).toEqual(["waited", "came"]);
    expect([admission.held.requests, admission.breaker.activeAndPending]).toEqual([0, 0]);
  });

  test("who may not be held is told at once; who waited already has all the time of a wait", async () => {
    const { ask, lose, clock } = await withOutage({ maxRequests: 1 });
    await fill(() => ask(), 1);
    const waiting = ask();
    await clock.advance(10_000);
    await lose();
    expect(await ask("b").result).toBe("none_available");
    let over = false;
    void waiting.result.then(() => {
      over = true;
    });
    await clock.advance(19_900);
    expect(over).toBe(false);
    await clock.advance(200);
    expect(await waiting.result).toBe("none_available");
  });

  test("the hold ends after its time, and with a hold of 0 nobody is held", async () => {
    const { hold, lose, clock, admission } = await withOutage({ noEndpointHoldMs: 60_000 });
    await lose();
    const held = hold();
    await clock.advance(59_900);
    expect(admission.pending).toBe(1);
    await clock.advance(200);
    expect(await held.result).toBe("none_available");
    expect(admission.held.requests).toBe(0);
    const without = await withOutage({ noEndpointHoldMs: 0 });
    await without.lose();
    expect(await without.hold().result).toBe("none_available");
  });

  test("when one is back, those who were held wait as long again for their turn, and those who come then as usual", async () => {
    const { ask, hold, lose, comeBack, clock, admission } = await withOutage({ maxRequests: 1 }, 5_000);
    const [running] = await fill(() => ask(), 1);
    await lose();
    const held = hold();
    await clock.advance(118_000);
    await comeBack();
    const newcomer = hold();
    await clock.advance(5_100);
    expect(await newcomer.result).toBe("pending_timeout");
    await clock.advance(114_800);
    expect(admission.pending).toBe(1);
    await clock.advance(200);
    expect(await held.result).toBe("pending_timeout");
    running?.release();
  });

  test("a backlog of an outage is no queue that stands: all of it is served, in order", async () => {
    const { ask, hold, lose, comeBack, clock } = await withOutage({ maxRequests: 1, maxPendingRequestsPerKey: 100 });
    await fill(() => ask(), 1).then(([place]) => place?.release());
    await lose();
    const order: number[] = [];
    for (let index = 0; index < 12; index += 1)
      void admitted(hold("a", { text: `${index}` })).then(async (place) => {
        order.push(index);
        await new Promise<void>((resolve) => clock.after(8_000, resolve));
        place.release();
      });
    await clock.advance(60_000);
    await comeBack();
    for (let seconds = 0; seconds < 100; seconds += 1) await clock.advance(1_000);
    expect(order).toEqual(Array.from({ length: 12 }, (_, index) => index));
  });

  test("what is held is bounded in number and bytes, a tenant leaves room for others, and a key has its own bound", async () => {
    const bounds = { maxHeldRequests: 4, maxHeldBytes: 1_000, maxPendingRequestsPerKey: 1 };
    const { hold, lose, admission } = await withOutage(bounds);
    await lose();
    void hold("a", { bytes: 400 });
    expect(await hold("a", { bytes: 101 }).result).toBe("none_available");
    void hold("a", { bytes: 100 });
    expect(admission.held).toMatchObject({ requests: 2, bytes: 500 });
    expect(await hold("a").result).toBe("none_available");
    const ofOne = { hints: { keyId: "one", maxPendingRequests: 1 } };
    const first = hold("b", ofOne);
    expect(await hold("b", ofOne).result).toBe("none_available");
    first.leave();
    expect(await hold("b", { bytes: 501 }).result).toBe("none_available");
    const leaving = hold("b", { bytes: 500 });
    leaving.leave();
    void hold("b", { bytes: 500 });
    void hold("c");
    expect(await hold("d").result).toBe("none_available");
    expect(admission.held).toMatchObject({ requests: 4, bytes: 1_000 });
  });

  test("an endpoint that had its try before the outage may have another one after it", async () => {
    const { hold, lose, comeBack, nodes, admission } = await withOutage();
    await lose();
    const held = hold("a", { tried: new Set(nodes.map(({ address }) => address)) });
    expect(admission.pending).toBe(1);
    await comeBack();
    expect((await admitted(held)).member.endpoint.address).toBe(nodes[0]?.address);
  });

  test("the age of the outage is known from its beginning, and counts anew when an endpoint announces itself", async () => {
    const { lose, comeBack, nodes, admission, clock } = await withOutage();
    expect(admission.outageMs()).toBeUndefined();
    await clock.advance(10_000);
    await lose();
    expect(admission.outageMs()).toBe(0);
    await clock.advance(40_000);
    expect(admission.outageMs()).toBe(40_000);
    // As a node that is gone, and comes back without serving yet.
    nodes[0]?.breakWatches();
    await until(() => admission.outageMs() === 0, "the node announces itself");
    await clock.advance(3_000);
    expect(admission.outageMs()).toBe(3_000);
    await comeBack();
    expect(admission.outageMs()).toBeUndefined();
  });

  test("panic sends to those that are not well, as many as their slots were", async () => {
    const { ask, nodes, cluster, admission } = await admitting({}, 2, 30_000, { healthyPanicThreshold: 50 });
    for (const node of nodes) node.tell(Serving.NOT_SERVING);
    await until(() => cluster.healthyEndpoints.length === 0, "none is healthy");
    expect(await fill(() => ask(), 8)).toHaveLength(8);
    const ninth = ask();
    expect(admission.pending).toBe(1);
    ninth.leave();
    await ninth.result;
  });
});

describe("an endpoint that has said when it has room again", () => {
  test("gets nothing until then", async () => {
    const { ask, nodes, admission, clock } = await admitting({}, 2);
    const [held, other] = nodes.map(({ address }) => address);
    admission.holdBack(held ?? "", 5_000);
    const places = await fill(() => ask(), 4);
    expect(places.map(({ member }) => member.endpoint.address)).toEqual(Array(4).fill(other));
    const fifth = ask();
    await clock.advance(4_900);
    expect(admission.pending).toBe(1);
    await clock.advance(200);
    expect((await admitted(fifth)).member.endpoint.address).toBe(held);
  });

  test("is not believed for longer than a minute", async () => {
    const { ask, nodes, admission, clock } = await admitting();
    admission.holdBack(nodes[0]?.address ?? "", 86_400_000);
    await clock.advance(59_900);
    const waiting = ask();
    expect(admission.pending).toBe(1);
    await clock.advance(200);
    await admitted(waiting);
  });
});

test("how long the queue takes is estimated from how fast it was served", async () => {
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

test("closing sends everybody away who waits", async () => {
  const { ask, admission } = await admitting({ maxRequests: 1 });
  await fill(() => ask(), 1);
  const waiting = ask();
  admission.close();
  expect(await waiting.result).toBe("no_endpoints");
  expect(admission.breaker.activeAndPending).toBe(1);
});

describe("what a request costs while all endpoints are full", () => {
  /** Admission in front of `count` endpoints, none of which takes anything; `reads` counts what is read of all of them. */
  function fullCluster(count: number, timeoutMs = 3_600_000) {
    const addresses = Array.from({ length: count }, (_, at) => `127.0.0.1:${at + 1}`);
    // Only the first ones are members, too, as only those are served.
    const rig = new FrontRig(addresses.slice(0, 4), { cluster: { lbPolicy: "least_request" } });
    opened.push(rig);
    const { cluster, manager, clock } = rig;
    let reads = 0;
    const get = (view: EndpointView, name: keyof EndpointView) => {
      reads += 1;
      return view[name];
    };
    const views = new EndpointViews();
    for (const address of addresses) views.set(new Proxy(endpointWith({ address, slots: 1 }), { get }));
    const counted: AdmittedCluster = {
      settings: cluster.settings,
      views,
      mayHaveEndpoints: true,
      announcedMs: 0,
      member: (address) => cluster.member(address),
      onMembersChange: () => () => {},
      onHealthChange: () => () => {},
    };
    const admission = new ClusterAdmission(
      counted,
      new Balancer(cluster, manager.work, clock, () => 0.5),
      clock,
      () => 0.5,
    );
    opened.push(admission);
    for (const address of addresses) admission.holdBack(address, 60_000);
    const never = new AbortController().signal;
    const admitted: Promise<Admitted | NotAdmitted>[] = [];
    const arrive = (tenant: string, tried: ReadonlySet<string> = new Set()) => {
      const route = routeFor(generateRequest({}, tenant), HINTS);
      const hints = { ...HINTS, keyId: tenant };
      const request = {
        route,
        tenant,
        hints,
        tried: new Set(tried),
        timeoutMs,
        mayHold: false,
        bytes: 0,
        underWay: false,
      };
      admitted.push(admission.acquire(request, never));
    };
    const readsOf = async (run: () => unknown) => {
      const before = reads;
      await run();
      return reads - before;
    };
    return { views, addresses, admission, clock, arrive, admitted, readsOf };
  }

  test.each([4, 30, 100, 300])("%i endpoints: an arrival looks at one of them", async (count) => {
    const { admission, arrive, readsOf } = fullCluster(count);
    const arrivals = Math.min(4 * count, 512);
    const reads = await readsOf(() => {
      for (let at = 0; at < arrivals; at += 1) arrive(`tenant ${at}`);
    });
    expect(admission.pending).toBe(arrivals);
    expect(reads).toBeLessThanOrEqual(arrivals);
  });

  test("a place that becomes free costs a look at its endpoint, however many are full and whoever waits", async () => {
    const costs = [];
    for (const count of [4, 300]) {
      const { addresses, admission, clock, arrive, admitted, readsOf } = fullCluster(count);
      const tried = new Set(addresses.slice(0, 1));
      for (let at = 0; at < count; at += 1) arrive(`tenant ${at}`, at < 3 ? tried : undefined);
      const whenRoom = await readsOf(async () => {
        admission.holdBack(addresses[0] ?? "", 0);
        await clock.advance(100);
      });
      // Three had their try there and are passed over.
      expect(admission.pending).toBe(count - 1);
      const fourth = await admitted[3];
      if (typeof fourth !== "object") throw new Error("the fourth is served");
      expect(fourth.member.endpoint.address).toBe(addresses[0]);
      const whenReleased = await readsOf(() => fourth.release());
      costs.push({ whenRoom, whenReleased });
    }
    expect(costs[0]?.whenRoom).toBe(costs[1]?.whenRoom);
    for (const { whenRoom, whenReleased } of costs) {
      expect(whenRoom).toBeLessThan(100);
      expect(whenReleased).toBeLessThan(100);
    }
  });

  test("who waits is served as soon as an endpoint has room, not at the next look at the time", async () => {
    const { addresses, admission, clock, arrive, admitted } = fullCluster(30);
    admission.holdBack(addresses[3] ?? "", 10);
    arrive("a");
    await clock.advance(10);
    expect(admission.pending).toBe(0);
    expect(await admitted[0]).toMatchObject({ member: { endpoint: { address: addresses[3] } } });
  });

  test("those whose time is up are sent away in slices, without a look at the endpoints", async () => {
    const { admission, clock, arrive, admitted, readsOf } = fullCluster(30, 1_000);
    for (let at = 0; at < 100; at += 1) arrive(`tenant ${at}`);
    await clock.advance(999);
    expect(await readsOf(() => clock.advance(1))).toBe(0);
    expect(new Set(await Promise.all(admitted))).toEqual(new Set(["pending_timeout"]));
    expect(admission.pending).toBe(0);
  });

  test("who waits only for an endpoint that leaves hears so at the next look, though the others are full", async () => {
    const { views, addresses, admission, clock, arrive, admitted } = fullCluster(4);
    arrive("a", new Set(addresses.slice(1)));
    arrive("b");
    views.set(endpointWith({ address: addresses[0] ?? "", draining: true }));
    await clock.advance(100);
    expect(await admitted[0]).toBe("all_tried");
    expect(admission.pending).toBe(1);
  });

  test("many may wait on one signal without a warning", async () => {
    const { arrive, admission } = fullCluster(30);
    const warnings: string[] = [];
    const note = ({ name }: Error) => warnings.push(name);
    process.on("warning", note);
    for (let at = 0; at < 100; at += 1) arrive(`tenant ${at}`);
    await new Promise((resolve) => setImmediate(resolve));
    process.off("warning", note);
    expect([admission.pending, warnings]).toEqual([100, []]);
  });
});

describe("places that are kept for other tenants", () => {
  test("no tenant takes as many as the others have wanted within the last minute", async () => {
    const { ask, admission, clock } = await admitting({}, 2);
    for (const place of await fill(() => ask("other"), 2)) place.release();
    const flood = await fill(() => ask("flood"), 6);
    const waiting = Array.from({ length: 10 }, () => ask("flood"));
    expect(admission.pending).toBe(10);
    // Those who come next wait for nobody, and pass those who may not go.
    const others = await fill(() => ask("other"), 2);
    const third = ask("third");
    expect(admission.pending).toBe(11);
    others[0]?.release();
    const last = await admitted(third);
    expect(admission.pending).toBe(10);
    // Three have come by now.
    flood[0]?.release();
    expect(admission.pending).toBe(10);
    flood[1]?.release();
    await admitted(waiting[0] ?? ask());
    expect(admission.pending).toBe(9);
    // Nobody else has come for a minute: nothing is kept any more.
    others[1]?.release();
    last.release();
    expect(admission.pending).toBe(9);
    await clock.advance(30_001);
    await clock.advance(30_001);
    await fill(() => ask("flood"), 3);
  });

  test("a tenant that is alone takes all, and so does everybody where nothing is to be kept", async () => {
    const { ask } = await admitting({}, 2);
    await fill(() => ask("alone"), 8);
    const { ask: askThere } = await admitting({ tenantReservePercent: 0 }, 2);
    await admitted(askThere("other")).then((place) => place.release());
    await fill(() => askThere("flood"), 8);
  });
});
