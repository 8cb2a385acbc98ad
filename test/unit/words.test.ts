import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
/** The forms that comments, test names and descriptions of settings and fields do not use: CONTRIBUTING, "Words". */
const BANNED =
  /\b(?:whoever|nobody|somebody|everybody|of late|by itself|go(?:es)? by|tells?|told|hears?|heard)\b|(?:^|[^\w])what (?:is|has|was|are|were|have)\b/gi;

/** Returns the comments, the names of tests and the descriptions of zod schemas in a source file. */
function proseOf(text: string): readonly string[] {
  const comments = text.match(/\/\*\*?[\s\S]*?\*\/|(?<!:)\/\/.*/g) ?? [];
  const names = [...text.matchAll(/\b(?:test|describe)(?:\.\w+(?:\([^)]*\))?)?\(\s*["'`]([^"'`]+)/g)];
  return [...comments, ...names.map(([, name = ""]) => name)];
}

test("comments and test names do not use banned forms", () => {
  const found = ["gateway", "engine", "deploy", "test"].flatMap((room) =>
    readdirSync(join(ROOT, room), { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .flatMap((file) =>
        proseOf(readFileSync(join(ROOT, room, file), "utf8")).flatMap((prose) =>
          (prose.match(BANNED) ?? []).map((form) => `${room}/${file}: ${form}`),
        ),
      ),
  );
  expect(found).toEqual([]);
});

test("documents do not use banned forms", () => {
  const pages = execFileSync("git", ["ls-files", "*.md"], { cwd: ROOT, encoding: "utf8" }).trim().split("\n");
  const found = pages.flatMap((page) => {
    // CONTRIBUTING lists the forms.
    const text = readFileSync(join(ROOT, page), "utf8").replace(/^## Words\n[\s\S]*?(?=^## )/m, "");
    return (text.match(BANNED) ?? []).map((form) => `${page}: ${form}`);
  });
  expect(found).toEqual([]);
});
