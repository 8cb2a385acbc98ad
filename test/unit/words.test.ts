import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
/** Forms that a comment or a test name does not use: CONTRIBUTING, "Words". */
const BANNED =
  /\b(?:whoever|nobody|somebody|everybody|of late|by itself|go(?:es)? by|tells?|told|hears?|heard)\b|(?:^|[^\w])what (?:is|has|was|are|were|have)\b/gi;
/** The occurrences that are left from before the rule. It falls with every change, and never rises. */
const LEFT = 68;

/** Returns the comments and the names of tests in a source file. */
function proseOf(text: string): readonly string[] {
  const comments = text.match(/\/\*\*?[\s\S]*?\*\/|(?<!:)\/\/.*/g) ?? [];
  const names = [...text.matchAll(/\b(?:test|describe)(?:\.\w+(?:\([^)]*\))?)?\(\s*["'`]([^"'`]+)/g)];
  return [...comments, ...names.map(([, name = ""]) => name)];
}

test("comments and test names do not use banned forms", () => {
  const counts = ["gateway", "engine", "deploy", "test"].flatMap((room) =>
    readdirSync(join(ROOT, room), { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .map(
        (file) =>
          proseOf(readFileSync(join(ROOT, room, file), "utf8"))
            .join("\n")
            .match(BANNED)?.length ?? 0,
      ),
  );
  expect(counts.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(LEFT);
});
