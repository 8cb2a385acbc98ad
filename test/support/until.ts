/** The time, in milliseconds, after which a condition never comes to hold: just below the limit of a test, as machines may be busy. */
const NEVER_MS = 50_000;

/**
 * Resolves when the condition holds; throws when it does not come to hold. Everything else gets a turn in between.
 * `what` names the condition in the message.
 */
export async function until(condition: () => boolean, what: string): Promise<void> {
  for (const lastMs = Date.now() + NEVER_MS; !condition(); ) {
    if (Date.now() > lastMs) throw new Error(`it did not come about: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
