import type { EndpointView } from "./endpoint-view.ts";

/**
 * The least limit on a node's own queue: long waits belong in the gateway's queue. A node with more slots may queue as
 * many requests as it has slots. With a lower limit, a conversation cached there would be prefilled on another node,
 * where it evicts others.
 */
const MIN_WAITING = 5;
/** The KV cache use at which a node receives no more requests: the engine would soon preempt running ones. */
const MAX_KV_USE = 0.95;

/**
 * Returns whether an endpoint may receive another request. Where all exceed their caps, the request waits in the
 * gateway.
 */
export function isWithinCaps({ waiting, kvUse, slots }: EndpointView): boolean {
  return waiting < Math.max(MIN_WAITING, slots) && kvUse < MAX_KV_USE;
}
