const UNIT_MS: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Longest duration that is taken, in milliseconds: 100 years of 365 days. */
export const MAX_DURATION_MS = 100 * 365 * 86_400_000;

/** Milliseconds of `90s`, `30m`, `24h`, `90d` or `0`; undefined for anything else. */
export function parseDurationMs(text: string): number | undefined {
  if (text === "0") return 0;
  const match = /^([0-9]{1,12})([smhd])$/.exec(text);
  const unitMs = UNIT_MS[match?.[2] ?? ""];
  if (unitMs === undefined) return undefined;
  const ms = Number(match?.[1]) * unitMs;
  return ms <= MAX_DURATION_MS ? ms : undefined;
}
