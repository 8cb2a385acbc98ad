import type { Duration } from "../../proto/gen/google/protobuf/duration.ts";
import type { CacheBreakpoint } from "../../proto/gen/svc/inference/v1/messages.ts";
import { isJsonObject } from "../json/json-text.ts";

export const MAX_CACHE_KEY_LENGTH = 512;

/** In seconds. */
const TTL_SECONDS: ReadonlyMap<string, number> = new Map([
  ["5m", 300],
  ["30m", 1_800],
  ["1h", 3_600],
  ["6h", 21_600],
  ["24h", 86_400],
]);

/** The names of all retention times, for error messages. */
export const CACHE_TTLS: readonly string[] = [...TTL_SECONDS.keys()];

/** Returns the duration that `name` stands for, or undefined for any other text. */
export function cacheTtl(name: string): Duration | undefined {
  const seconds = TTL_SECONDS.get(name);
  return seconds === undefined ? undefined : { seconds, nanos: 0 };
}

/**
 * Reads a `cache_control` on a part, a message or a tool: the end of a reusable prefix, kept for `ttl` or the node's
 * default. A hint is never refused: a value that is not an object marks nothing, and an unknown `ttl` means the
 * default.
 */
export function cacheBreakpoint(value: unknown): CacheBreakpoint | undefined {
  if (!isJsonObject(value)) return undefined;
  const ttl = value.ttl;
  return { ttl: typeof ttl === "string" ? cacheTtl(ttl) : undefined };
}
