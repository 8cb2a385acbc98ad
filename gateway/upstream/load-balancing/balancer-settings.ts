import * as z from "zod";
import { LB_POLICIES, POLICIES } from "./policies.ts";

/** The schemas of a cluster's settings on how an endpoint is picked. */
export const balancerShape = {
  lbPolicy: z
    .enum(LB_POLICIES)
    .default("prefix_affinity")
    .describe(
      [
        "The policy by which an endpoint is picked.",
        ...LB_POLICIES.map((name) => `${name}: ${POLICIES[name].summary}`),
      ].join(" "),
    ),
};
