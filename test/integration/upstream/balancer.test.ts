import { describe, expect, onTestFinished, test } from "vitest";
import { Balancer, type Choice } from "../../../gateway/upstream/load-balancing/balancer.ts";
import { LB_POLICIES } from "../../../gateway/upstream/load-balancing/policies.ts";
import type { Route } from "../../../gateway/upstream/load-balancing/route.ts";
import { HealthNode } from "../../support/engine/health-node.ts";
import { delta, started } from "../../support/events/events.ts";
import { FrontRig, HINTS, routeFor } from "../../support/gateway/front-rig.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";

const NONE: ReadonlySet<string> = new Set();

async function balanced(lbPolicy: string, nodeCount = 3) {
  const nodes = await Promise.all(Array.from({ length: nodeCount }, () => HealthNode.start({ models: ["svc-qwen"] })));
  for (const node of nodes) onTestFinished(() => node.stop());
  const addresses = nodes.map(({ address }) => address);
  const rig = new FrontRig(addresses, { cluster: { lbPolicy } });
  onTestFinished(() => rig.close());
  await rig.ready();
  const { cluster, manager, clock } = rig;
  let drawn = 0;
  const balancer = new Balancer(cluster, manager.work, clock, () => (drawn++ % 10) / 10);
  const choose = (route: Route, tried = NONE) => balancer.pick(cluster.endpointSet, route, tried);
  return { cluster, clock, balancer, choose, addresses };
}

const route = (text: string) => routeFor(generateRequest({}, text));
const chosen = (choice: Choice) => ("pick" in choice ? choice.pick.endpoint.address : choice.none);

/** Returns the placement of a choice, begun. */
function begun(choice: Choice) {
  if (!("pick" in choice) || !choice.pick.placement) throw new Error("there was no placement");
  choice.pick.placement.begin();
  return choice.pick.placement;
}

test.each(LB_POLICIES)("%s picks an endpoint, never one that is full, was tried or is ejected", async (lbPolicy) => {
  const { choose, addresses, cluster, clock } = await balanced(lbPolicy);
  const [first = "", second = "", third = ""] = addresses;
  const texts = Array.from({ length: 20 }, (_, index) => `conversation ${index}`);
  for (const text of texts) {
    expect(addresses).toContain(chosen(choose(route(text))));
    expect(chosen(choose(route(text), new Set([first])))).not.toBe(first);
  }
  for (let failure = 0; failure < 5; failure += 1) cluster.outliers.report(third, "failure", 0);
  for (const text of texts) expect(chosen(choose(route(text)))).not.toBe(third);
  expect(chosen(choose(route("all"), new Set(addresses)))).toBe("all_tried");
  cluster.endpointSet.holdBack(first, 1_000);
  for (const text of texts) expect(chosen(choose(route(text)))).toBe(second);
  cluster.endpointSet.holdBack(second, 1_000);
  expect(chosen(choose(route("all")))).toBe("all_full");
  await clock.advance(1_000);
  expect([first, second]).toContain(chosen(choose(route("all"))));
});

test("round robin picks them in turn, and makes no placement", async () => {
  const { choose, addresses } = await balanced("round_robin");
  const choices = Array.from({ length: 6 }, () => choose(route("x")));
  expect(new Set(choices.slice(0, 3).map(chosen))).toEqual(new Set(addresses));
  expect(choices.slice(3).map(chosen)).toEqual(choices.slice(0, 3).map(chosen));
  for (const choice of choices) expect("pick" in choice && Object.keys(choice.pick)).toEqual(["endpoint"]);
});

describe("prefix affinity", () => {
  test("the next turn follows the last one, and is expected to prefill its new part only", async () => {
    const { choose } = await balanced("prefix_affinity");
    const first = generateRequest({}, "a long beginning ".repeat(2_000));
    const choice = choose(routeFor(first));
    begun(choice).see([started({ inputTokens: 9_000 }), delta(0, "a")]);
    const more = generateRequest({ messages: [...first.messages, ...first.messages.slice(0, 1)] });
    for (let index = 0; index < 5; index += 1) expect(chosen(choose(routeFor(more, HINTS)))).toBe(chosen(choice));
  });

  test("the placement's work counts on the endpoint while the attempt runs", async () => {
    const { balancer, choose, cluster } = await balanced("prefix_affinity", 1);
    const outstanding = () => cluster.members[0]?.outstandingPrefillTokens;
    expect(outstanding()).toBe(0);
    const placement = begun(choose(route("x".repeat(40_000))));
    expect(outstanding()).toBeGreaterThan(1_000);
    placement.end();
    expect(outstanding()).toBe(0);
    // Without a measurement, by the bytes of the prompt.
    expect(Math.abs(balancer.expectedTokens(route("x".repeat(4_000))) - 1_000)).toBeLessThan(100);
  });
});
