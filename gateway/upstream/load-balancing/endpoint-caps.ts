import type { EndpointView } from "./endpoint-view.ts";

/**
 * The least number of requests in a node's own queue from which it is sent no more: long waits belong in the gateway's
 * queue. A node that runs many at once may have as many that wait. Where it may have fewer, a conversation that is cached
 * there is prefilled on another node, which evicts others, and so on.
 */
const MIN_WAITING = 5;
/** The share of a node's KV cache in use from which it is sent no more: the engine would soon preempt what runs. */
const MAX_KV_USE = 0.95;

/**
 * Returns whether an endpoint may be sent more now. Where all are beyond their caps, the request waits in the gateway.
 */
export function isWithinCaps({ waiting, kvUse, slots }: EndpointView): boolean {
  return waiting < Math.max(MIN_WAITING, slots) && kvUse < MAX_KV_USE;
}
