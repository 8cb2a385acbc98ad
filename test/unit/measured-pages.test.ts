import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

/* A page with figures names the commit that was measured. Its figures are those of another program once that changes. */

const ROOT = resolve(import.meta.dirname, "../..");

/** The share of the lines of what a page measures that may have changed since. */
const CHANGED = 0.15;

const PAGES = [
  {
    page: "gateway/docs/performance.md",
    measures: [
      "gateway/upstream",
      "gateway/http/answer",
      "gateway/http/record",
      "gateway/formats",
      "gateway/translation",
    ],
  },
  { page: "gateway/docs/agents-tried.md", measures: ["gateway/http", "gateway/formats", "deploy/local/launch"] },
  { page: "gateway/docs/sockets-tried.md", measures: ["gateway/http/websocket", "gateway/formats/responses"] },
  {
    page: "gateway/docs/routing.md",
    measures: ["gateway/upstream/load-balancing", "gateway/upstream/admission", "gateway/upstream/prefill"],
  },
  { page: "engine/docs/performance.md", measures: ["engine/backends/llama"] },
];

const git = (...args: readonly string[]) =>
  execFileSync("git", ["-C", ROOT, ...args], { encoding: "utf8", maxBuffer: 2 ** 26 });

/** Returns the commit that a page names; undefined if it names none, or one with changes. */
const commitOf = (page: string) =>
  /^Measured on [\d-]+ at ([\da-f]{12}),/m.exec(readFileSync(join(ROOT, page), "utf8"))?.[1];

test.each(PAGES)("$page names the commit that was measured", ({ page }) => {
  expect(commitOf(page)).toBeDefined();
});

// A shallow clone has no other commit than its own.
const comparable = PAGES.filter(({ page }) => {
  const { status } = spawnSync("git", ["-C", ROOT, "cat-file", "-e", `${commitOf(page)}^{commit}`]);
  return status === 0;
});

test("what measured pages measure has hardly changed since", () => {
  const changed = comparable.map(({ page, measures }) => {
    const changes = git("diff", "--find-renames", "--numstat", String(commitOf(page)), "--", ...measures);
    const lines = sum([...changes.matchAll(/^(\d+)\t\d+\t.*\.ts$/gm)].map(([, added]) => Number(added)));
    const files = git("ls-files", ...measures)
      .trim()
      .split("\n")
      .filter((file) => file.endsWith(".ts"));
    const all = sum(files.map((file) => readFileSync(join(ROOT, file), "utf8").split("\n").length));
    return { page, share: lines / all };
  });
  expect(changed.filter(({ share }) => share > CHANGED)).toEqual([]);
});

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
