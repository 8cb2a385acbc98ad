import type { Duration } from "../../../proto/gen/google/protobuf/duration.ts";
import type { CacheHints } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { CacheBreakpoint } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { FieldPath } from "../../errors.ts";
import { MAX_CACHE_KEY_LENGTH } from "../cache-control.ts";
import { invalidValue, tooLong } from "../field-error.ts";

/** The longest retention of a prefix that a caller may request, in seconds. */
const MAX_TTL_SECONDS = 86_400;

/**
 * Reads the hints on the cache. The affinity key is the caller's own here, like a `prompt_cache_key` in other formats;
 * the route, which has the tenant, makes a digest of it. Callers cannot choose the isolation salt.
 */
export function checkedCacheHints(cache: CacheHints | undefined): CacheHints | undefined {
  if (!cache) return undefined;
  const { affinityKey, ttl } = cache;
  if (affinityKey.length > MAX_CACHE_KEY_LENGTH) throw tooLong(["cache", "affinity_key"], MAX_CACHE_KEY_LENGTH);
  return { affinityKey, isolationSalt: "", ttl: checkedTtl(ttl, ["cache", "ttl"]) };
}

/** Checks the breakpoint of the tool or the part that `path` leads to. */
export function breakpointOf(mark: CacheBreakpoint | undefined, path: FieldPath): CacheBreakpoint | undefined {
  return mark && { ttl: checkedTtl(mark.ttl, [...path, "cache_breakpoint", "ttl"]) };
}

function checkedTtl(ttl: Duration | undefined, path: FieldPath): Duration | undefined {
  if (!ttl) return undefined;
  const { seconds, nanos } = ttl;
  const time = seconds + nanos / 1e9;
  if (!(time >= 0 && time <= MAX_TTL_SECONDS))
    throw invalidValue(path, "expected at most 24 hours, and no less than 0.");
  return { seconds, nanos };
}
