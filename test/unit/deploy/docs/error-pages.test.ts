import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { REASONS } from "../../../../engine/errors.ts";
import { ERROR_ANSWERS } from "../../../../gateway/formats/error-envelope.ts";
import { END_REASONS, OUTCOMES, RESPONSE_FLAGS } from "../../../../gateway/outcome.ts";

/* A reader who has the text of an error finds its page by searching for it. */

const ROOT = join(import.meta.dirname, "../../../..");
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

const answers = Object.entries(ERROR_ANSWERS);

test.each([
  [
    "detail tokens, end reasons and flags of log lines",
    "gateway/docs/outcomes.md",
    [OUTCOMES, END_REASONS, RESPONSE_FLAGS].flatMap(Object.keys),
  ],
  ["codes of replies", "gateway/docs/outcomes.md", answers.map(([name, { aCode = name }]) => aCode)],
  [
    "codes and types of replies",
    "gateway/docs/api.md",
    answers.flatMap(([name, { aCode = name, a, b }]) => [aCode, a, b]),
  ],
  ["reasons of engines", "engine/docs/errors.md", Object.keys(REASONS)],
])("all %s are on %s", (_what, page, words) => {
  const text = read(page);
  expect([...new Set(words)].filter((word) => !text.includes(`\`${word}\``))).toEqual([]);
});

const SERVICE = "deploy/docs/run-as-a-service.md";

test("the start refusals that have a remedy read as a program writes them", () => {
  const [, section = ""] = read(SERVICE).split("| text | what to do |");
  const texts = [...section.matchAll(/^\| (`.*?`) \|/gm)].flatMap(([, cell = ""]) =>
    [...cell.matchAll(/`([^`]+)`/g)].flatMap(([, text = ""]) => text.split("…").map((part) => part.trim())),
  );
  const files = execFileSync("git", ["ls-files", "gateway/*.ts", "engine/*.ts", "deploy/*.ts"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  const sources = files.trim().split("\n").map(read).join("\n");
  expect(texts.length).toBeGreaterThan(20);
  expect(texts.filter((text) => !sources.includes(text))).toEqual([]);
});
