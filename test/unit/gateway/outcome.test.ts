import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { expect, test } from "vitest";
import { costOf, type Detail, OUTCOMES, REQUEST_COSTS } from "../../../gateway/outcome.ts";

const ROOT = join(import.meta.dirname, "../../..");
const TABLE = "gateway/outcome.ts";

const sources = readdirSync(join(ROOT, "gateway"), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
  .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)))
  .filter((file) => file !== TABLE)
  .map((file) => ({ file, text: readFileSync(join(ROOT, file), "utf8") }));

/** The names of error codes are tokens too, and stand wherever an error is made. */
const codes = new Set(
  [...(sources.find(({ file }) => file === "gateway/errors.ts")?.text ?? "").matchAll(/^ {2}\| "(\w+)"/gm)].map(
    ([, code]) => code,
  ),
);
const details = Object.keys(OUTCOMES) as Detail[];
const tokens = new Set<string>(details.filter((detail) => !codes.has(detail)));

test("no code compares or matches a token: what it means is a column of the table", () => {
  const sorting =
    /\bdetail\b\)?\s*(===|!==)\s*["`]|\.(has|includes|exec|test)\([^)]*\bdetail\b|switch \([^)]*\bdetail\b/;
  // In a body `detail` is how closely an image is looked at.
  const others = sources.filter(({ file }) => !file.startsWith("gateway/formats/"));
  expect(others.filter(({ text }) => sorting.test(text)).map(({ file }) => file)).toEqual([]);
});

test("every token of the table is the token of some error", () => {
  const made = new Set(sources.flatMap(({ text }) => [...text.matchAll(/"(\w+)"/g)].map(([, word]) => word)));
  expect([...tokens].filter((token) => !made.has(token))).toEqual([]);
});

test.each([
  ["upstream_draining", "UH"],
  ["upstream_loading", "UH"],
  ["upstream_model_not_served", "UH"],
  ["request_of_death_suspected", "UO"],
] as const)("%s is no death of an engine", (detail, flag) => {
  expect(OUTCOMES[detail]).toMatchObject({ end: "shed", flag });
});

test.each(details)("the row of %s says what happened in one sentence", (detail) => {
  expect(OUTCOMES[detail].meaning).toMatch(/^[A-Z].*[^.]\.$/);
});

test("only limits of a key have a dimension, and each has its own", () => {
  const dims = details.flatMap((detail) => OUTCOMES[detail].dim ?? []);
  expect(new Set(dims).size).toBe(dims.length);
  expect(details.filter((detail) => OUTCOMES[detail].dim && OUTCOMES[detail].flag !== "RL")).toEqual([]);
});

test.each([
  [[], "nothing"],
  [["no_healthy_upstream"], "nothing"],
  [["invalid_json", "no_healthy_upstream"], "request"],
  [["upstream_reset", "no_healthy_upstream"], "work"],
  [["upstream_per_try_idle_timeout", "request_of_death"], "work"],
] as const)("failures of %j cost %s: the most that one of them does", (failures, cost) => {
  expect(costOf(failures)).toBe(cost);
});

test("whatever ends a call that an engine had in its hands is charged, and a service without room charges nothing", () => {
  const atWork = details.filter((detail) => OUTCOMES[detail].attemptStat);
  expect(atWork.filter((detail) => costOf([detail]) !== "work")).toEqual([]);
  const free = details.filter((detail) => OUTCOMES[detail].end === "shed" || OUTCOMES[detail].untouched);
  expect(free.filter((detail) => costOf([detail]) !== "nothing")).toEqual([]);
  expect(REQUEST_COSTS).toEqual(["nothing", "request", "work"]);
});
