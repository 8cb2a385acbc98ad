import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import * as z from "zod";
import { projectFolder } from "../runtime/files/project-folder.ts";
import { code, page, table } from "./markdown.ts";

/*
 * Cases of the engine's output parser for the outputs of model families: facts from the tests of vLLM's and SGLang's
 * parsers, in a form of our own. A test runs them, and the page of families counts them.
 */

const FOLDER = join(projectFolder(), "test/unit/engine/output-parser/family-cases");

const whole = z.boolean().default(true);

const block = z.union([
  z.strictObject({ text: z.string() }),
  z.strictObject({ reasoning: z.string(), whole }),
  /** A call whose arguments are a whole object. */
  z.strictObject({ call: z.string(), args: z.record(z.string(), z.unknown()), id: z.string().optional() }),
  /** A call whose arguments broke off, as the received text. */
  z.strictObject({ call: z.string(), raw: z.string(), id: z.string().optional() }),
]);

const source = z.enum(["vLLM", "SGLang"]);

const familyCase = z
  .strictObject({
    what: z.string().min(1),
    of: z.array(source).min(1),
    /** Default: all profiles of the family. */
    profiles: z.array(z.string()).optional(),
    /** Text of the model; `{{WORD}}` stands for one of the words. */
    output: z.string(),
    /** Whether the prompt ended inside the reasoning. */
    thinking: z.boolean().default(false),
    cut: z.boolean().default(false),
    wants: z.array(block),
    /** Our result, if it differs on purpose. */
    gives: z.array(block).optional(),
    why: z.string().optional(),
  })
  .refine(({ gives, why }) => (gives === undefined) === (why === undefined), "`gives` and `why` come together");

const familyCases = z.strictObject({
  family: z.string().min(1),
  /** Profiles of the family, each with its own words. */
  profiles: z.record(z.string(), z.record(z.string(), z.string())),
  /** Test files that the cases come from. */
  sources: z.partialRecord(source, z.array(z.string())),
  /** Words that stand for marks, in the order of substitution. */
  words: z.record(z.string(), z.string()).default({}),
  /** The tools, and their schemas besides `type: object`. */
  tools: z.record(z.string(), z.record(z.string(), z.unknown())),
  cases: z.array(familyCase).min(1),
});

export type CaseBlock = z.output<typeof block>;
type FamilyCases = z.output<typeof familyCases>;

export function readFamilyCases(): readonly FamilyCases[] {
  return readdirSync(FOLDER)
    .filter((file) => file.endsWith(".yaml"))
    .map((file) => familyCases.parse(parse(readFileSync(join(FOLDER, file), "utf8"))))
    .sort((a, b) => (a.family < b.family ? -1 : 1));
}

/** Returns a text or a block after substitution of the words, those of the profile last. */
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

/** Writes the page of the model families: the parsed parts of their outputs, compared with vLLM and SGLang. */
export function familiesPage(): string {
  const families = readFamilyCases();
  return page("Families of models", "`engine/profiles/` and `test/unit/engine/output-parser/family-cases/`", [
    [
      "Profiles read what models write. The cases are facts out of the tests of vLLM's and SGLang's parsers, with names and values of our own;",
      "each runs whole, by characters and in two pieces split anywhere. *Alike*: the result is theirs, but for white space around texts.",
      "*Differing*: it is not, for a reason below; each names it, and its source.",
    ].join("\n"),
    table(["family", "profiles", "cases", "alike", "differing"], families.map(familyRow)),
    "## Prompts that code writes",
    [
      "Checkpoints of DeepSeek V3.2, V4, V4.1 and Kimi-K3 have code, no template. `engine/conversation/renderers/` writes their prompts, in process and beside vLLM and",
      "SGLang: token for token those of vLLM's encoders (`test/engines`), and of Kimi-K3's own. Mistral, prompts with images, and what differs at the start stay with the",
      "engine's rendering; llama-server takes its model file's template.",
    ].join("\n"),
    "## What differs on purpose",
    table(["reason", "cases"], reasonRows(families)),
  ]);
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

/** Returns the reasons of more than four cases, the most frequent first. */
function reasonRows(families: readonly FamilyCases[]): readonly (readonly string[])[] {
  const counts = new Map<string, number>();
  for (const { why } of families.flatMap(({ cases }) => cases)) if (why) counts.set(why, (counts.get(why) ?? 0) + 1);
  const rows = [...counts].filter(([, count]) => count > 4).sort(([, one], [, other]) => other - one);
  const others = [...counts.values()].filter((count) => count <= 4).reduce((sum, count) => sum + count, 0);
  return [...rows.map(([why, count]) => [why, String(count)]), ["other reasons", String(others)]];
}
