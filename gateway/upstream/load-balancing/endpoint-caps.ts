import type { EndpointView } from "./endpoint-view.ts";

/** The number of requests in a node's own queue from which it is sent no more: long waits belong in the gateway's queue. */
const MAX_WAITING = 5;
/** The share of a node's KV cache in use from which it is sent no more: the engine would soon preempt what runs. */
const MAX_KV_USE = 0.95;

/**
 * Returns whether an endpoint may be sent more now. Where all are beyond their caps, the request waits in the gateway.
 */
export function isWithinCaps({ waiting, kvUse }: EndpointView): boolean {
  return waiting < MAX_WAITING && kvUse < MAX_KV_USE;
}
