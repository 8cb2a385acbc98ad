import { leastRequest } from "./policies/least-request.ts";
import { prefixAffinity } from "./policies/prefix-affinity/prefix-affinity.ts";
import { random } from "./policies/random.ts";
import { ringHash } from "./policies/ring-hash.ts";
import { roundRobin } from "./policies/round-robin.ts";
import type { Policy, PolicyParts, SettingsOf } from "./policy.ts";

/** All load-balancing policies by the name that the configuration calls them. A new one is a file and a row here. */
export const POLICIES = {
  prefix_affinity: prefixAffinity,
  least_request: leastRequest,
  ring_hash: ringHash,
  round_robin: roundRobin,
  random,
};

/** The name of a load-balancing policy, as the configuration calls it. */
export type LbPolicy = keyof typeof POLICIES;

/** The names of all policies, in the order of the table. */
export const LB_POLICIES: readonly LbPolicy[] = Object.keys(POLICIES).filter(isLbPolicy);

type Intersection<Union> = (Union extends unknown ? (value: Union) => void : never) extends (value: infer All) => void
  ? All
  : never;

type PolicyShape = Intersection<(typeof POLICIES)[LbPolicy]["settings"]>;

/**
 * The schemas of the settings that policies have of their own, each under its key in the configuration of a cluster.
 */
export const policyShape: PolicyShape = Object.assign({}, ...Object.values(POLICIES).map(({ settings }) => settings));

/** Which policy a cluster has, and the settings of all policies. */
export type PolicySettings = SettingsOf<PolicyShape> & { readonly lbPolicy: LbPolicy };

/** Makes the policy that the settings name. */
export function createPolicy(settings: PolicySettings, parts: PolicyParts): Policy {
  return POLICIES[settings.lbPolicy].create(settings, parts);
}

function isLbPolicy(name: string): name is LbPolicy {
  return Object.hasOwn(POLICIES, name);
}
