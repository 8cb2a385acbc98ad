import * as z from "zod";
import type { EndpointView } from "./endpoint-view.ts";

/** The schema of the settings on what an endpoint may have to do and still be sent more. */
export const endpointCapsSchema = z
  .strictObject({
    // Long waits belong in the gateway's queue, which is fair.
    maxWaiting: z
      .int()
      .min(1)
      .default(5)
      .describe("The number of requests in a node's own queue from which the endpoint is passed over."),
    // Above it, the engine would soon preempt what runs.
    maxKvUse: z
      .number()
      .gt(0)
      .max(1)
      .default(0.95)
      .describe("The share of a node's KV cache in use, 0 to 1, from which the endpoint is passed over."),
  })
  .prefault({})
  .describe("Where all endpoints are beyond their caps, requests wait in the gateway.");

/** The settings on what an endpoint may have to do and still be sent more, checked, with their defaults. */
export type EndpointCaps = Readonly<z.infer<typeof endpointCapsSchema>>;

/**
 * Returns whether an endpoint may be sent more now. Where all are beyond their caps, the request waits in the gateway.
 */
export function isWithinCaps({ waiting, kvUse }: EndpointView, { maxWaiting, maxKvUse }: EndpointCaps): boolean {
  return waiting < maxWaiting && kvUse < maxKvUse;
}
