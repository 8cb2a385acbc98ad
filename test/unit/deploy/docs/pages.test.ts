import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { generatedFiles } from "../../../../deploy/docs/pages.ts";

const ROOT = join(import.meta.dirname, "../../../..");

test.each(generatedFiles())("$path is up to date; `npm run docs` writes it", ({ path, text }) => {
  expect(readFileSync(join(ROOT, path), "utf8")).toBe(text);
});
