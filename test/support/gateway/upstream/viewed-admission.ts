import { checkConfig } from "../../../../deploy/runtime/config/load-config.ts";
import { AdmissionController } from "../../../../gateway/upstream/admission/admission-controller.ts";
import { clustersSchema } from "../../../../gateway/upstream/cluster/cluster-settings.ts";
import { EndpointSet } from "../../../../gateway/upstream/load-balancing/endpoint-set.ts";
import type { EndpointView } from "../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { createPolicy } from "../../../../gateway/upstream/load-balancing/policies/policies.ts";
import { PrefixIndex } from "../../../../gateway/upstream/load-balancing/prefix-index.ts";
import { WorkLedger } from "../../../../gateway/upstream/load-balancing/work-ledger.ts";
import { VirtualClock } from "../../virtual-clock.ts";

/** Makes admission in front of endpoint views; `change` replaces one as a change of its health does. */
export function viewedAdmission(endpoints: readonly EndpointView[], given: object = {}, work = new WorkLedger()) {
  const clock = new VirtualClock();
  const [settings] = checkConfig(clustersSchema, [{ type: "static", model: "m", endpoints: [], ...given }], "test");
  if (!settings) throw new Error("there is no cluster");
  const { maxRequestsPerEndpoint } = settings.circuitBreakers;
  const endpointSet = new EndpointSet({ clock, maxRequestsPerEndpoint });
  for (const view of endpoints) endpointSet.set(view);
  const listeners: (() => void)[] = [];
  const change = (view: EndpointView) => {
    endpointSet.set(view);
    for (const listener of listeners) listener();
  };
  const cluster = {
    ...{ settings, endpointSet, mayHaveEndpoints: true, announcedMs: 0 },
    member: (address: string) => address,
    onMembersChange: () => () => {},
    onHealthChange: (listener: () => void) => {
      listeners.push(listener);
      return () => {};
    },
  };
  const random = () => 0.5;
  const policy = createPolicy(settings.lbPolicy, { prefixes: new PrefixIndex(), work, clock, random });
  const admission = new AdmissionController(cluster, policy, clock, random);
  return { clock, endpointSet, admission, change };
}
