import { leastRequest } from "./policies/least-request.ts";
import { prefixAffinity } from "./policies/prefix-affinity/prefix-affinity.ts";
import { roundRobin } from "./policies/round-robin.ts";
import type { Policy, PolicyParts, PolicyRow } from "./policy.ts";

export type LbPolicy = "prefix_affinity" | "least_request" | "round_robin";

/** All load-balancing policies by name. A new policy is a file and a row here. */
export const POLICIES: Readonly<Record<LbPolicy, PolicyRow>> = {
  prefix_affinity: prefixAffinity,
  least_request: leastRequest,
  round_robin: roundRobin,
};

/** The names of all policies, in the order of the table. */
export const LB_POLICIES: readonly LbPolicy[] = ["prefix_affinity", "least_request", "round_robin"];

export function createPolicy(name: LbPolicy, parts: PolicyParts): Policy {
  return POLICIES[name].create(parts);
}
