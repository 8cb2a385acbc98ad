import { checkConfig } from "../../../../deploy/runtime/config/load-config.ts";
import { AdmissionController } from "../../../../gateway/upstream/admission/admission-controller.ts";
import { clustersSchema } from "../../../../gateway/upstream/cluster-settings.ts";
import { Balancer } from "../../../../gateway/upstream/load-balancing/balancer.ts";
import { EndpointSet } from "../../../../gateway/upstream/load-balancing/endpoint-set.ts";
import type { EndpointView } from "../../../../gateway/upstream/load-balancing/endpoint-view.ts";
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
    ...{ settings, endpointSet, prefixes: new PrefixIndex(), mayHaveEndpoints: true, announcedMs: 0 },
    member: (address: string) => address,
    onMembersChange: () => () => {},
    onHealthChange: (listener: () => void) => {
      listeners.push(listener);
      return () => {};
    },
  };
  const admission = new AdmissionController(cluster, new Balancer(cluster, work, clock, () => 0.5), clock, () => 0.5);
  return { clock, endpointSet, admission, change };
}
