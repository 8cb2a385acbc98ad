import { afterEach, describe, expect, test } from "vitest";
import { Balancer } from "../../../gateway/upstream/load-balancing/balancer.ts";
import { PickableEndpoints } from "../../../gateway/upstream/load-balancing/pickable-endpoints.ts";
import { LB_POLICIES } from "../../../gateway/upstream/load-balancing/policies.ts";
import type { Route } from "../../../gateway/upstream/load-balancing/route.ts";
import { HealthNode } from "../../support/engine/health-node.ts";
import { FrontRig, HINTS, routeFor } from "../../support/gateway/front-rig.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";

const NONE: ReadonlySet<string> = new Set();
const opened: { close(): void }[] = [];

afterEach(() => {
  for (const one of opened.splice(0).reverse()) one.close();
});

async function balanced(cluster: Readonly<Record<string, unknown>>, nodeCount = 3) {
  const nodes = await Promise.all(Array.from({ length: nodeCount }, () => HealthNode.start({ models: ["svc-qwen"] })));
  for (const node of nodes) opened.push({ close: () => node.stop() });
  const rig = new FrontRig(
    nodes.map(({ address }) => address),
    { cluster },
  );
  opened.push(rig);
  await rig.ready();
  let drawn = 0;
  const random = () => (drawn++ % 10) / 10;
  const balancer = new Balancer(rig.cluster, rig.manager.work, rig.clock, random);
  const pick = (route: Route, tried = NONE, hasRoom: (view: { address: string }) => boolean = () => true) => {
    const pickable = new PickableEndpoints({ hasRoom });
    rig.cluster.views.follow(pickable)();
    const choice = balancer.pick(pickable, route, tried);
    return "pick" in choice ? choice.pick.endpoint.address : choice.none;
  };
  const pickable = new PickableEndpoints();
  rig.cluster.views.follow(pickable);
  return { rig, cluster: rig.cluster, pickable, balancer, pick, addresses: nodes.map(({ address }) => address) };
}

const route = (text: string, headers: Record<string, string> = {}) =>
  routeFor(generateRequest({}, text), { ...HINTS, headers });

describe.each(LB_POLICIES)("%s", (lbPolicy) => {
  test("picks an endpoint, never one that is full, was tried or is ejected", async () => {
    const { pick, addresses, cluster } = await balanced({ lbPolicy });
    const [first = "", second = "", third = ""] = addresses;
    for (let index = 0; index < 20; index += 1) {
      const text = `conversation ${index}`;
      expect(addresses).toContain(pick(route(text)));
      expect(pick(route(text), new Set([first]))).not.toBe(first);
      expect(pick(route(text), NONE, ({ address }) => address === second)).toBe(second);
    }
    for (let failure = 0; failure < 5; failure += 1) cluster.outliers.report(third, "failure", 0);
    for (let index = 0; index < 20; index += 1) expect(pick(route(`later ${index}`))).not.toBe(third);
    expect(pick(route("all"), new Set(addresses))).toBe("all_tried");
    expect(pick(route("all"), NONE, () => false)).toBe("all_full");
  });
});

test("round robin picks them in turn", async () => {
  const { pick, addresses } = await balanced({ lbPolicy: "round_robin" });
  const picks = Array.from({ length: 6 }, () => pick(route("x")));
  expect(new Set(picks.slice(0, 3))).toEqual(new Set(addresses));
  expect(picks.slice(3)).toEqual(picks.slice(0, 3));
});

describe("prefix affinity", () => {
  test("the next turn follows the last one, and is expected to prefill its new part only", async () => {
    const { balancer, pickable } = await balanced({ lbPolicy: "prefix_affinity" });
    const first = generateRequest({}, "a long beginning ".repeat(2_000));
    const choice = balancer.pick(pickable, routeFor(first, HINTS), NONE);
    if (!("pick" in choice) || !choice.pick.placement) throw new Error("there was no placement");
    choice.pick.placement.begin();
    choice.pick.placement.see([
      {
        kind: {
          $case: "started",
          value: { nodeId: "n", modelRevision: "r", inputTokens: 9_000, cachedInputTokens: 0, sampling: undefined },
        },
      },
      { kind: { $case: "blockDelta", value: { index: 0, text: "a", logprobs: [] } } },
    ]);
    const more = generateRequest({ messages: [...first.messages, ...first.messages.slice(0, 1)] });
    for (let index = 0; index < 5; index += 1) {
      const next = balancer.pick(pickable, routeFor(more, HINTS), NONE);
      expect("pick" in next && next.pick.endpoint.address).toBe(choice.pick.endpoint.address);
    }
  });

  test("the placement's work counts on the endpoint while the attempt runs", async () => {
    const { balancer, pickable, cluster } = await balanced({ lbPolicy: "prefix_affinity" }, 1);
    const choice = balancer.pick(pickable, route("x".repeat(40_000)), NONE);
    if (!("pick" in choice) || !choice.pick.placement) throw new Error("there was no placement");
    const outstanding = () => cluster.members[0]?.outstandingPrefillTokens;
    expect(outstanding()).toBe(0);
    choice.pick.placement.begin();
    expect(outstanding()).toBeGreaterThan(1_000);
    choice.pick.placement.end();
    expect(outstanding()).toBe(0);
  });
});

test("a stateless policy makes no placement", async () => {
  const { balancer, pickable } = await balanced({ lbPolicy: "round_robin" }, 1);
  const choice = balancer.pick(pickable, route("x"), NONE);
  expect("pick" in choice && Object.keys(choice.pick)).toEqual(["endpoint"]);
});

test("the length of a prompt can be estimated by its bytes", async () => {
  const { balancer } = await balanced({}, 1);
  expect(balancer.expectedTokens(route("x".repeat(4_000)))).toBeGreaterThan(900);
  expect(balancer.expectedTokens(route("x".repeat(4_000)))).toBeLessThan(1_100);
});
