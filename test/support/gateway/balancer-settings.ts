import * as z from "zod";
import { type BalancerSettings, balancerShape } from "../../../gateway/upstream/load-balancing/balancer-settings.ts";

const schema = z.strictObject(balancerShape);

/** Returns the settings on how endpoints are picked, with the defaults of whatever is not given. */
export function balancerSettings(given: z.input<typeof schema> = {}): BalancerSettings {
  return schema.parse(given);
}
