import { onTestFinished } from "vitest";
import { AdmissionController } from "../../../../gateway/upstream/admission/admission-controller.ts";
import type { Admitted, Result } from "../../../../gateway/upstream/admission/slot-request.ts";
import type { ClusterMember } from "../../../../gateway/upstream/cluster-member.ts";
import { Balancer } from "../../../../gateway/upstream/load-balancing/balancer.ts";
import { HealthNode } from "../../engine/health-node.ts";
import { generateRequest } from "../../requests/generate-request.ts";
import { FrontRig, HINTS, routeFor } from "../front-rig.ts";

export type Asked = { readonly result: Promise<Result<ClusterMember>> };

/** Starts admission in front of a node with four slots, for the running test; `settings` are those of the cluster. */
export async function admitting(settings: Readonly<Record<string, unknown>> = {}) {
  const nodes = [await HealthNode.start({ models: ["svc-qwen"] })];
  for (const node of nodes) onTestFinished(() => node.stop());
  const rig = new FrontRig(
    nodes.map(({ address }) => address),
    { cluster: settings },
  );
  onTestFinished(() => rig.close());
  await rig.ready();
  const { cluster, manager, clock } = rig;
  const random = () => 0.5;
  const admission = new AdmissionController(cluster, new Balancer(cluster, manager.work, clock, random), clock, random);
  onTestFinished(() => admission.close());
  const ask = (tenant = "a", { mayHold = false } = {}): Asked => {
    const hints = { ...HINTS, keyId: tenant };
    const route = routeFor(generateRequest({}, tenant), hints);
    const request = { route, tenant, hints, tried: new Set<string>(), timeoutMs: 30_000, mayHold, bytes: 0 };
    return { result: admission.acquire({ ...request, underWay: false }, new AbortController().signal) };
  };
  return { ...rig, cluster, clock, nodes, admission, ask };
}

/** Resolves to the slot of a request. Throws if it is refused. */
export async function admitted({ result }: Asked): Promise<Admitted<ClusterMember>> {
  const slot = await result;
  if (typeof slot === "string") throw new Error(`not admitted: ${slot}`);
  return slot;
}

export async function fill(ask: () => Asked, count: number): Promise<Admitted<ClusterMember>[]> {
  return Promise.all(Array.from({ length: count }, () => admitted(ask())));
}
