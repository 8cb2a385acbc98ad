import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { readSpelledJson, type SpelledJson } from "./json-text.ts";
import type { SchemaCase } from "./schema-case.ts";

export type PublicSet = { readonly name: string; readonly cases: Iterable<SchemaCase> };

/** The drafts of the test suite in use: the newest widely used one, and the one that most schemas name. */
const DRAFTS = ["draft2020-12", "draft7"];

/**
 * Finds the public collections in a folder, which is or contains checkouts: the data of MaskBench (jsonschemabench) and
 * the JSON-Schema-Test-Suite.
 */
export function publicSets(folder: string): readonly PublicSet[] {
  const folders = [folder, ...readdirSync(folder).map((name) => join(folder, name))];
  return folders.flatMap((each) => {
    const sets: PublicSet[] = [];
    const data = join(each, "maskbench/data");
    if (existsSync(data)) sets.push({ name: "MaskBench", cases: maskBench(data) });
    const suite = join(each, "tests", DRAFTS[0] ?? "");
    if (existsSync(suite)) sets.push({ name: "JSON-Schema-Test-Suite", cases: testSuite(join(each, "tests")) });
    return sets;
  });
}

function* maskBench(folder: string): Iterable<SchemaCase> {
  for (const name of jsonFiles(folder)) {
    const { members } = readSpelledJson(readFileSync(join(folder, name), "utf8"));
    yield { name, ...caseOf(members) };
  }
}

/** Yields the test groups of the drafts and their formats; a group is one schema. */
function* testSuite(folder: string): Iterable<SchemaCase> {
  for (const draft of DRAFTS) {
    for (const part of ["", "optional/format"]) {
      const inside = join(folder, draft, part);
      for (const name of existsSync(inside) ? jsonFiles(inside) : []) {
        const groups = readSpelledJson(readFileSync(join(inside, name), "utf8")).items ?? [];
        for (const [at, group] of groups.entries())
          yield { name: `${join(draft, part, name)}[${at}]`, ...caseOf(group.members) };
      }
    }
  }
}

function caseOf(members: ReadonlyMap<string, SpelledJson> | undefined): Omit<SchemaCase, "name"> {
  const tests = members?.get("tests")?.items ?? [];
  return {
    schema: members?.get("schema")?.text ?? "",
    tests: tests.map(({ members: test }) => ({
      text: test?.get("data")?.text ?? "",
      isValid: test?.get("valid")?.value === true,
    })),
  };
}

function jsonFiles(folder: string): readonly string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .sort();
}
