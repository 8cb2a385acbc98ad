import { expect, test } from "vitest";
import { referencePages } from "../../../../../deploy/docs/reference/format-pages.ts";
import { OPERATIONS, openApiDocument } from "../../../../../gateway/reference/openapi.ts";

const pages = referencePages();
const { schemas } = openApiDocument([]).components;
const everything = pages.map(({ text }) => text).join("\n");

test.each(Object.entries(OPERATIONS))("the pages name every field of the request of %s", (_name, { request }) => {
  const properties = schemas[String(request?.meta()?.id)]?.properties ?? {};
  expect(Object.keys(properties).filter((field) => !everything.includes(`\n- \`${field}\``))).toEqual([]);
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
