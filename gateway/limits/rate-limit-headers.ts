import type { Envelope } from "../errors.ts";
import type { DimensionReading, Measure } from "./dimension.ts";

const REQUESTS: readonly Measure[] = ["rpm", "countRpm"];
const INPUT: readonly Measure[] = ["itpm"];
const OUTPUT: readonly Measure[] = ["otpm"];
const TOKENS: readonly Measure[] = [...INPUT, ...OUTPUT];

/**
 * Writes the state of the key's limits as headers, in the syntax of the two vendors whose SDKs read them. Of several
 * limits on one measure, the one with the smallest remaining share is shown; a measure without a limit is omitted.
 */
export function rateLimitHeaders(
  envelope: Envelope,
  readings: readonly DimensionReading[],
  prefix: string,
  wallMs: number,
): Record<string, string> {
  const headers: Record<string, string> = {};
  const add = (measures: readonly Measure[], what: string, plain: boolean) => {
    const shown = tightest(readings.filter(({ dimension }) => measures.includes(dimension.measure)));
    if (!shown) return;
    const limit = String(shown.dimension.limit);
    const remaining = String(Math.max(0, Math.floor(shown.reading.remaining)));
    const { resetMs } = shown.reading;
    if (envelope === "b") {
      headers[`${prefix}-ratelimit-${what}-limit`] = limit;
      headers[`${prefix}-ratelimit-${what}-remaining`] = remaining;
      headers[`${prefix}-ratelimit-${what}-reset`] = instant(wallMs + resetMs);
    } else if (plain) {
      headers[`x-ratelimit-limit-${what}`] = limit;
      headers[`x-ratelimit-remaining-${what}`] = remaining;
      headers[`x-ratelimit-reset-${what}`] = duration(resetMs);
    }
  };
  add(REQUESTS, "requests", true);
  add(TOKENS, "tokens", true);
  add(INPUT, "input-tokens", false);
  add(OUTPUT, "output-tokens", false);
  return headers;
}

function tightest(readings: readonly DimensionReading[]): DimensionReading | undefined {
  return readings.reduce<DimensionReading | undefined>((a, b) => (a && left(a) <= left(b) ? a : b), undefined);
}

function left({ dimension, reading }: DimensionReading): number {
  const { rule } = dimension;
  return reading.remaining / (rule.kind === "bucket" ? rule.capacity : rule.total);
}

/** Writes `12ms`, `1.5s`, `6m0s`, `1h2m3s`; zero is `0s`. Fractions of a second appear only below a minute. */
export function duration(ms: number): string {
  if (ms > 0 && ms < 1000) return `${ms}ms`;
  if (ms < 60_000) return `${ms / 1000}s`;
  const seconds = Math.ceil(ms / 1000);
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  return `${hours > 0 ? `${hours}h` : ""}${minutes}m${seconds % 60}s`;
}

/** Writes a timestamp as RFC 3339 in UTC, rounded up to whole seconds. */
function instant(wallMs: number): string {
  return new Date(Math.ceil(wallMs / 1000) * 1000).toISOString().replace(".000Z", "Z");
}
