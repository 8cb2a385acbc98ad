import type { Envelope } from "../errors.ts";
import type { DimensionReading } from "./dimension.ts";
import { HEADERS, MEASURES, UNITS } from "./measures.ts";

/**
 * Writes the state of the key's limits as headers, in the syntax of the two vendors whose SDKs read them. Of several
 * limits in one header, the one with the smallest remaining share is shown; a header without a limit is omitted.
 */
export function rateLimitHeaders(
  envelope: Envelope,
  readings: readonly DimensionReading[],
  wallMs: number,
): Record<string, string> {
  const headers: Record<string, string> = {};
  if (readings.length === 0) return headers;
  for (const what of HEADERS) {
    const shows = ({ dimension: { measure } }: DimensionReading) =>
      UNITS[MEASURES[measure].unit].headers.includes(what);
    const shown = tightest(readings.filter(shows));
    if (!shown) continue;
    const limit = String(shown.dimension.limit);
    const remaining = String(Math.max(0, Math.floor(shown.reading.remaining)));
    const { resetMs } = shown.reading;
    if (envelope === "b") {
      headers[`anthropic-ratelimit-${what}-limit`] = limit;
      headers[`anthropic-ratelimit-${what}-remaining`] = remaining;
      headers[`anthropic-ratelimit-${what}-reset`] = instant(wallMs + resetMs);
    } else if (what === "requests" || what === "tokens") {
      headers[`x-ratelimit-limit-${what}`] = limit;
      headers[`x-ratelimit-remaining-${what}`] = remaining;
      headers[`x-ratelimit-reset-${what}`] = duration(resetMs);
    }
  }
  return headers;
}

function tightest(readings: readonly DimensionReading[]): DimensionReading | undefined {
  return readings.reduce<DimensionReading | undefined>((a, b) => (a && left(a) <= left(b) ? a : b), undefined);
}

const left = ({ dimension, reading }: DimensionReading) => reading.remaining / dimension.limit;

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
