import { code, page, table } from "../markdown.ts";
import { type FamilyCases, readFamilyCases, readOtherTests } from "./family-cases.ts";

/** Writes the page of the model families: the parsed parts of their outputs, compared with vLLM and SGLang. */
export function familiesPage(): string {
  const families = readFamilyCases();
  const differing = families.filter(({ cases }) => cases.some(({ why }) => why !== undefined));
  return page("Families of models", "`engine/profiles/` and `test/unit/engine/output-parser/family-cases/`", [
    [
      "What models write is read by a profile for each family. The cases are facts out of the tests of vLLM's and SGLang's",
      "parsers, with names and values of our own. Each runs whole, character by character and in two pieces split anywhere",
      "(`test/unit/engine/output-parser/family-cases.test.ts`; the exhaustive lane splits at every character). *Alike*: we make",
      "of it what these engines do, but for white space at the ends of texts. *Differing*: we do not, for the reason below.",
    ].join("\n"),
    table(["family", "profiles", "cases", "alike", "differing"], families.map(familyRow)),
    "## What differs on purpose",
    ...differing.flatMap((family) => [`### ${family.family}`, differences(family)]),
    "## Where the cases are from",
    table(["family", "vLLM", "SGLang"], families.map(sourceRow)),
    "## Tests that give no case",
    [
      "The tests are those of vLLM 0.33's source package and of stored states of both repositories, newer and older ones and",
      "branches included: a test that is gone in the newest state may still stand above. Of those here that are about families",
      "with a profile the beginnings were read, or more; the others are told by what they and their tests are named after.",
    ].join("\n"),
    table(["of", "why", "tests"], otherRows()),
  ]);
}

function otherRows(): readonly (readonly string[])[] {
  return Object.entries(readOtherTests()).flatMap(([engine, groups]) =>
    groups.map(({ why, tests }) => [engine, why, tests.map(code).join(", ")]),
  );
}

function familyRow({ family, profiles, cases }: FamilyCases): readonly string[] {
  const names = Object.keys(profiles);
  const differing = cases.filter(({ why }) => why !== undefined).length;
  return [
    family,
    names.map(code).join(", "),
    String(cases.length),
    String(cases.length - differing),
    String(differing),
  ];
}

function differences({ cases }: FamilyCases): string {
  const rows = cases.flatMap(({ what, of, why }) => (why === undefined ? [] : [[what, of.join(", "), why]]));
  return table(["case", "of", "why we do otherwise"], rows);
}

function sourceRow({ family, sources }: FamilyCases): readonly string[] {
  return [family, ...[sources.vLLM, sources.SGLang].map((files = []) => files.map(code).join(", "))];
}
