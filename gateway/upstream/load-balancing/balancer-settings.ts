import * as z from "zod";
import { LB_POLICIES, type LbPolicy, POLICIES, policyShape } from "./policies.ts";
import type { SettingsOf } from "./policy.ts";
import { priorityShape } from "./priority-levels.ts";
import { slowStartSchema } from "./slow-start.ts";

/** The policy of a cluster that names none. */
const BY_DEFAULT: LbPolicy = "prefix_affinity";

/** The schemas of a cluster's settings on how an endpoint is picked. */
export const balancerShape = {
  lbPolicy: z
    .enum(LB_POLICIES)
    .default(BY_DEFAULT)
    .describe(
      [
        "The policy by which an endpoint is picked.",
        ...LB_POLICIES.map((name) => `${name}: ${POLICIES[name].summary}`),
      ].join(" "),
    ),
  ...policyShape,
  ...priorityShape,
  slowStart: slowStartSchema,
};

/** The settings on how an endpoint of a cluster is picked, checked, with their defaults. */
export type BalancerSettings = SettingsOf<typeof balancerShape>;
