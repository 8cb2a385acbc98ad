import * as z from "zod";
import { LB_POLICIES, POLICIES } from "./policies.ts";

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
