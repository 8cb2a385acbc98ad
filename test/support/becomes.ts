/**
 * Resolves when the condition, which may query another process, holds; throws if it does not hold within `limitMs`
 * milliseconds, 40,000 by default. `what` names the condition in the message.
 */
export async function becomes(condition: () => Promise<boolean>, what: string, limitMs = 40_000): Promise<void> {
  let waitMs = 20;
  for (const lastMs = Date.now() + limitMs; !(await condition()); ) {
    if (Date.now() > lastMs) throw new Error(`it did not come about: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, waitMs));
    // The queried process has other work; a slow condition may be detected slightly later.
    waitMs = Math.min(100, waitMs * 1.2);
  }
}
