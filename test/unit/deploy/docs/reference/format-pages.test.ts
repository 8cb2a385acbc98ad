import { expect, test } from "vitest";
import { referencePages } from "../../../../../deploy/docs/reference/format-pages.ts";
import { openApiDocument } from "../../../../../gateway/reference/openapi.ts";

const pages = referencePages();
const { schemas } = openApiDocument([]).components;
const everything = pages.map(({ text }) => text).join("\n");

/** The text of a schema's section, on whatever page it is. */
function sectionOf(name: string): string {
  const [, after = ""] = everything.split(`\n### ${name}\n`);
  return after.split(/\n##/)[0] ?? "";
}

test("every schema of the document has a section, and every field of it a row", () => {
  const missing = Object.entries(schemas).flatMap(([name, { properties = {} }]) => {
    const section = sectionOf(name);
    return Object.keys(properties)
      .filter((field) => !section.includes(`\n| \`${field}\` |`))
      .map((field) => `${name}.${field}`);
  });
  expect(missing).toEqual([]);
});

test.each(pages)("every link of $path within itself leads to a heading", ({ text }) => {
  const anchors = new Set(
    [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading.toLowerCase().replaceAll(" ", "-")),
  );
  const links = [...text.matchAll(/\]\(#([^)]*)\)/g)].map(([, anchor = ""]) => anchor);
  expect(links.filter((anchor) => !anchors.has(anchor))).toEqual([]);
});

test.each(pages)("no row of $path is without words", ({ text }) => {
  expect(text.split("\n").filter((line) => line.startsWith("| `") && line.endsWith(" |  |"))).toEqual([]);
});
