/*
 * Events of the benches carry the time of their writing in their text. The clock is the monotonic one of the machine,
 * which all processes share, so that a reader in another process knows how long an event was under way.
 */

/** The mark that stands for one event wherever it goes: it is in no id, no header and no frame around the text. */
export const MARK = "@";
const DIGITS = 9;
/** The number of characters of a whole stamp. */
export const STAMP_LENGTH = MARK.length + DIGITS + 1;

/** Returns the machine's monotonic time in microseconds. */
export function nowUs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e6 + nanoseconds / 1e3;
}

/** Returns the stamp of a time in monotonic microseconds, which goes along in the text of an event. */
export function stamp(timeUs: number): string {
  return `${MARK}${Math.floor(timeUs).toString(36).padStart(DIGITS, "0")};`;
}

/**
 * Returns the time in the stamp that starts at `at`, in monotonic microseconds; undefined when something has cut it.
 */
export function stampedUs(text: string, at: number): number | undefined {
  const digits = text.slice(at + MARK.length, at + STAMP_LENGTH - 1);
  if (text[at + STAMP_LENGTH - 1] !== ";" || !/^[0-9a-z]{9}$/.test(digits)) return undefined;
  return Number.parseInt(digits, 36);
}
