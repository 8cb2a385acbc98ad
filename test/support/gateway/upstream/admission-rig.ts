import { onTestFinished } from "vitest";
import type { Admitted, NotAdmitted } from "../../../../gateway/upstream/admission/place-search.ts";
import { ClusterAdmission } from "../../../../gateway/upstream/cluster-admission.ts";
import type { ClusterMember } from "../../../../gateway/upstream/cluster-member.ts";
import { Balancer } from "../../../../gateway/upstream/load-balancing/balancer.ts";
import type { RoutingHints } from "../../../../gateway/upstream/load-balancing/routing-hints.ts";
import { HealthNode } from "../../engine/health-node.ts";
import { generateRequest } from "../../requests/generate-request.ts";
import { FrontRig, HINTS, routeFor } from "../front-rig.ts";

/** A request that waits for admission, with its cancellation. */
export type Asked = { readonly result: Promise<Admitted<ClusterMember> | NotAdmitted>; readonly leave: () => void };

/** Starts admission in front of nodes with four slots each, unless `circuitBreakers` differs, for the running test. */
export async function admitting(
  circuitBreakers: object = {},
  nodeCount = 1,
  timeoutMs = 30_000,
  settings: object = {},
) {
  const nodes = await Promise.all(Array.from({ length: nodeCount }, () => HealthNode.start({ models: ["svc-qwen"] })));
  for (const node of nodes) onTestFinished(() => node.stop());
  const rig = new FrontRig(
    nodes.map(({ address }) => address),
    { cluster: { circuitBreakers, ...settings } },
  );
  onTestFinished(() => rig.close());
  await rig.ready();
  const { cluster, manager, clock } = rig;
  const admission = new ClusterAdmission(
    cluster,
    new Balancer(cluster, manager.work, clock, () => 0.5),
    clock,
    () => 0.5,
  );
  onTestFinished(() => admission.close());
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

/** Resolves to the place of a request. Throws if it is refused. */
export async function admitted({ result }: Asked): Promise<Admitted<ClusterMember>> {
  const place = await result;
  if (typeof place === "string") throw new Error(`not admitted: ${place}`);
  return place;
}

/** Takes `count` free places. */
export async function fill(ask: () => Asked, count: number): Promise<Admitted<ClusterMember>[]> {
  return Promise.all(Array.from({ length: count }, () => admitted(ask())));
}
