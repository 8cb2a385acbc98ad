import { vi } from "vitest";

/** Just below the time limit of a test, because machines may be busy; a search of the heap may take seconds. */
const LIMITS = { timeout: 50_000, interval: 20 };

/** Repeats assertions until they pass, and resolves to their result; rejects with the last failure. */
export function eventually<T>(assert: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(assert, LIMITS);
}
