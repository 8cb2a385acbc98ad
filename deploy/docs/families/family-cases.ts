import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import * as z from "zod";
import { projectFolder } from "../../runtime/files/project-folder.ts";

/*
 * The cases that show what the engine's output parser makes of what models of a family write: facts out of the tests
 * of vLLM's and SGLang's parsers, in a form of our own. A test runs them, and the page of families counts them.
 */

const TESTS = join(projectFolder(), "test/unit/engine/output-parser");
/** The folder of the cases, a YAML file for each family. */
const FOLDER = join(TESTS, "family-cases");

const whole = z.boolean().default(true);

/** One block of an answer, or of what an engine makes of it. */
const block = z.union([
  z.strictObject({ text: z.string() }),
  z.strictObject({ reasoning: z.string(), whole }),
  /** A call whose arguments are a whole object. */
  z.strictObject({ call: z.string(), args: z.record(z.string(), z.unknown()), id: z.string().optional() }),
  /** A call whose arguments broke off, as the text that came. */
  z.strictObject({ call: z.string(), raw: z.string(), id: z.string().optional() }),
]);

const source = z.enum(["vLLM", "SGLang"]);

const familyCase = z
  .strictObject({
    what: z.string().min(1),
    /** The engines whose tests have the case. */
    of: z.array(source).min(1),
    /** The profiles to which it applies; all of the family by default. */
    profiles: z.array(z.string()).optional(),
    /** The text that the model writes; `{{WORD}}` stands for one of the words. */
    output: z.string(),
    /** Whether the prompt ended inside the reasoning. */
    thinking: z.boolean().default(false),
    /** Whether the output was cut. */
    cut: z.boolean().default(false),
    /** What these engines make of it. */
    wants: z.array(block),
    /** What we make of it, where that differs on purpose. */
    gives: z.array(block).optional(),
    /** Why it differs. */
    why: z.string().optional(),
  })
  .refine(({ gives, why }) => (gives === undefined) === (why === undefined), "`gives` and `why` come together");

const familyCases = z.strictObject({
  family: z.string().min(1),
  /** The profiles of the family, each with the words that are its own. */
  profiles: z.record(z.string(), z.record(z.string(), z.string())),
  /** The files of tests whose facts stand here. */
  sources: z.partialRecord(source, z.array(z.string())),
  /** Words that stand for marks, in the order in which they are put in. */
  words: z.record(z.string(), z.string()).default({}),
  /** The tools, and what their schemas say beside `type: object`. */
  tools: z.record(z.string(), z.record(z.string(), z.unknown())),
  cases: z.array(familyCase).min(1),
});

const otherTests = z.record(
  source,
  z.array(z.strictObject({ why: z.string().min(1), tests: z.array(z.string().min(1)).min(1) })),
);

/** The tests of each engine that give no cases, by the reason why. */
export type OtherTests = z.output<typeof otherTests>;
/** One block that a case speaks of. */
export type CaseBlock = z.output<typeof block>;
/** One case of a family. */
export type FamilyCase = z.output<typeof familyCase>;
/** The cases of a family. */
export type FamilyCases = z.output<typeof familyCases>;

/** Returns the cases of all families, by their names. */
export function readFamilyCases(): readonly FamilyCases[] {
  return readdirSync(FOLDER)
    .filter((file) => file.endsWith(".yaml"))
    .map((file) => familyCases.parse(parse(readFileSync(join(FOLDER, file), "utf8"))))
    .sort((a, b) => (a.family < b.family ? -1 : 1));
}

/** Returns the tests that give no cases. */
export function readOtherTests(): OtherTests {
  return otherTests.parse(parse(readFileSync(join(TESTS, "other-tests.yaml"), "utf8")));
}

/** Returns a text or a block with its words put in, those of the profile last. */
export function withWords<T>(value: T, { words, profiles }: FamilyCases, profile: string): T {
  const all = [...Object.entries(words), ...Object.entries(profiles[profile] ?? {})];
  const put = (text: string) => all.reduce((done, [word, mark]) => done.replaceAll(`{{${word}}}`, mark), text);
  const inside = (each: unknown): unknown => {
    if (typeof each === "string") return put(each);
    if (Array.isArray(each)) return each.map(inside);
    if (typeof each !== "object" || each === null) return each;
    return Object.fromEntries(Object.entries(each).map(([key, member]) => [key, inside(member)]));
  };
  return inside(value) as T;
}
