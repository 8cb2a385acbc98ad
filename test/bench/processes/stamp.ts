/*
 * Events of the benches contain their write time. The clock is the machine's monotonic one, which all processes share,
 * so that a reader in another process can compute an event's delay.
 */

/** The mark of one event: it occurs in no id, header or frame around the text. */
export const MARK = "@";
const DIGITS = 9;
export const STAMP_LENGTH = MARK.length + DIGITS + 1;

export function nowUs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e6 + nanoseconds / 1e3;
}

/** Returns the stamp of a time in monotonic microseconds, for the text of an event. */
export function stamp(timeUs: number): string {
  return `${MARK}${Math.floor(timeUs).toString(36).padStart(DIGITS, "0")};`;
}

/** Returns the time of the stamp at `at`, in monotonic microseconds; undefined if the stamp is cut. */
export function stampedUs(text: string, at: number): number | undefined {
  const digits = text.slice(at + MARK.length, at + STAMP_LENGTH - 1);
  if (text[at + STAMP_LENGTH - 1] !== ";" || !/^[0-9a-z]{9}$/.test(digits)) return undefined;
  return Number.parseInt(digits, 36);
}
