import { checkConfig } from "../../../../deploy/runtime/config/load-config.ts";
import { AdmissionController } from "../../../../gateway/upstream/admission/admission-controller.ts";
import { clustersSchema } from "../../../../gateway/upstream/cluster-settings.ts";
import { Balancer } from "../../../../gateway/upstream/load-balancing/balancer.ts";
import type { EndpointView } from "../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { EndpointViews } from "../../../../gateway/upstream/load-balancing/endpoint-views.ts";
import { PrefixIndex } from "../../../../gateway/upstream/load-balancing/prefix-index.ts";
import { WorkLedger } from "../../../../gateway/upstream/load-balancing/work-ledger.ts";
import { VirtualClock } from "../../virtual-clock.ts";

/**
 * Makes admission in virtual time in front of endpoint views; a member is its address. `given` overrides the cluster's
 * default settings; `change` replaces a view as a change of the endpoint's health does.
 */
export function viewedAdmission(endpoints: readonly EndpointView[], given: object = {}, work = new WorkLedger()) {
  const clock = new VirtualClock();
  const views = new EndpointViews();
  for (const view of endpoints) views.set(view);
  const [settings] = checkConfig(clustersSchema, [{ type: "static", model: "m", endpoints: [], ...given }], "test");
  if (!settings) throw new Error("there is no cluster");
  const listeners: (() => void)[] = [];
  const change = (view: EndpointView) => {
    views.set(view);
    for (const listener of listeners) listener();
  };
  const cluster = {
    ...{ settings, views, prefixes: new PrefixIndex(), mayHaveEndpoints: true, announcedMs: 0 },
    member: (address: string) => address,
    onMembersChange: () => () => {},
    onHealthChange: (listener: () => void) => {
      listeners.push(listener);
      return () => {};
    },
  };
  const admission = new AdmissionController(cluster, new Balancer(cluster, work, clock, () => 0.5), clock, () => 0.5);
  return { clock, views, admission, change };
}
