import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { generatedFiles } from "../../../../deploy/docs/pages.ts";

const ROOT = join(import.meta.dirname, "../../../..");

test.each(generatedFiles())("$path is what the code gives; `npm run docs` writes it anew", ({ path, text }) => {
  expect(readFileSync(join(ROOT, path), "utf8")).toBe(text);
});
