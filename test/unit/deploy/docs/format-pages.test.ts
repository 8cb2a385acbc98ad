import { expect, test } from "vitest";
import { referencePages } from "../../../../deploy/docs/format-pages.ts";
import { OPERATIONS, openApiDocument } from "../../../../gateway/reference/openapi.ts";

const pages = referencePages();
const { schemas } = openApiDocument([]).components;
/** The fields that a line of a page begins with: one, or several that are alike. */
const named = new Set(
  pages.flatMap(({ text }) =>
    [...text.matchAll(/^- ((?:`[^`]+`(?:\\\*)?(?:, )?)+) /gm)].flatMap(([, names = ""]) =>
      [...names.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name),
    ),
  ),
);

test.each(Object.entries(OPERATIONS))("the pages name every field of the request of %s", (_name, { request }) => {
  const properties = schemas[String(request?.meta()?.id)]?.properties ?? {};
  expect(Object.keys(properties).filter((field) => !named.has(field))).toEqual([]);
});

test.each(pages)("every link of $path within itself leads to a heading", ({ text }) => {
  const anchors = new Set(
    [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading.toLowerCase().replaceAll(" ", "-")),
  );
  const links = [...text.matchAll(/\]\(#([^)]*)\)/g)].map(([, anchor = ""]) => anchor);
  expect(links.filter((anchor) => !anchors.has(anchor))).toEqual([]);
});

test.each(pages)("no row of $path is without words", ({ text }) => {
  expect(text.split("\n").filter((line) => /^\| `.*\|\s*\|$|^- `.*:\s*$/.test(line))).toEqual([]);
});
