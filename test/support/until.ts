/** Just below the time limit of a test, because machines may be busy. */
const NEVER_MS = 50_000;

/** Resolves when the condition holds; throws if it does not. The event loop turns between two checks. */
export async function until(condition: () => boolean, what: string): Promise<void> {
  for (const lastMs = Date.now() + NEVER_MS; !condition(); ) {
    if (Date.now() > lastMs) throw new Error(`it did not come about: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
