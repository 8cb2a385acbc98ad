import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { SchemaCase } from "./judge.ts";

type Group = {
  readonly schema: unknown;
  readonly tests: readonly { readonly data: unknown; readonly valid: boolean }[];
};

/** Numbers as texts with a mark, which `spelled` removes. */
const MARK = "\u{f8ff}";

/**
 * Parses JSON and keeps the spelling of numbers: for a grammar `1.0` is no integer, but JavaScript converts it to one.
 * Throws `SyntaxError`.
 */
function readSpelled(source: string): unknown {
  const marked = source.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/gs, (part) =>
    part.startsWith('"') ? part : `"${MARK}${part}"`,
  );
  return JSON.parse(marked);
}

/** Returns the JSON of a parsed value, with its numbers as they were spelled and a space behind commas and colons. */
function spelled(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spelled).join(", ")}]`;
  if (typeof value === "object" && value !== null)
    return `{${Object.entries(value)
      .map(([key, member]) => `${JSON.stringify(key)}: ${spelled(member)}`)
      .join(", ")}}`;
  return typeof value === "string" && value.startsWith(MARK) ? value.slice(1) : JSON.stringify(value);
}

type PublicSet = { readonly name: string; readonly cases: Iterable<SchemaCase> };

const DRAFTS = ["draft2020-12", "draft7"];

/** Finds checkouts of jsonschemabench (MaskBench) and of the JSON-Schema-Test-Suite in a folder, or as the folder. */
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
  for (const name of jsonFiles(folder))
    yield { name, ...caseOf(readSpelled(readFileSync(join(folder, name), "utf8")) as Group) };
}

function* testSuite(folder: string): Iterable<SchemaCase> {
  for (const draft of DRAFTS) {
    for (const part of ["", "optional/format"]) {
      const inside = join(folder, draft, part);
      for (const name of existsSync(inside) ? jsonFiles(inside) : []) {
        const groups = readSpelled(readFileSync(join(inside, name), "utf8")) as readonly Group[];
        for (const [at, group] of groups.entries())
          yield { name: `${join(draft, part, name)}[${at}]`, ...caseOf(group) };
      }
    }
  }
}

function caseOf({ schema, tests }: Group): Omit<SchemaCase, "name"> {
  return { schema: spelled(schema), tests: tests.map(({ data, valid }) => ({ text: spelled(data), isValid: valid })) };
}

function jsonFiles(folder: string): readonly string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .sort();
}
