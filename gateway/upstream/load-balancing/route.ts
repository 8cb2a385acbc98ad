import { durationMs } from "../../../deploy/runtime/time/proto-duration.ts";
import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { needsTurns, type Steps } from "../../event-loop-turn.ts";
import { affinityKey } from "./affinity-key.ts";
import { headOf, type PromptShape, promptBytes, promptShape } from "./boundary-hashes.ts";
import type { RoutingHints } from "./routing-hints.ts";

/** What picks look at in a request, made once for all its tries. */
export type Route = {
  /** The digests and sizes of the prompt, by which prefixes are compared. */
  readonly shape: PromptShape;
  /** A digest of the caller, session or conversation that the request belongs to. */
  readonly affinityKey: string;
  /**
   * The time for which the prompt is to stay in an engine's cache, in milliseconds; undefined when the request does not
   * say.
   */
  readonly ttlMs: number | undefined;
};

/**
 * Makes the route of a request, in steps between which the event loop gets a turn. After a big prompt it pauses at the
 * end too, as sending the prompt comes next.
 */
export function* routing(request: GenerateRequest, hints: RoutingHints): Steps<Route> {
  const shape = yield* promptShape(request, hints.prefixKey);
  const { tenant, cache } = request;
  const input = { cacheKey: cache?.affinityKey ?? "", headers: hints.headers, tenant, conversationHead: headOf(shape) };
  if (needsTurns(promptBytes(shape))) yield;
  const { key } = affinityKey(input, hints.digest);
  return { shape, affinityKey: key, ttlMs: cache?.ttl && durationMs(cache.ttl) };
}
