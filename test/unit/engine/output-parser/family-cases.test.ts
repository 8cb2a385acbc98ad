import { describe, expect, test } from "vitest";
import { type CaseBlock, readFamilyCases, withWords } from "../../../../deploy/docs/families-page.ts";
import { asWritten, BREAK } from "../../../../deploy/runtime/contract/broken-arguments.ts";
import { builtInProfiles } from "../../../../engine/profiles/profile.ts";
import { argumentTypes } from "../../../../engine/tool-calls/argument-types.ts";
import { sizeOf } from "../../../support/size.ts";
import { markersOf } from "./families.ts";
import { type Block, expectEqual, parsePieces, splitsOf } from "./parse-output.ts";

const FAMILIES = readFamilyCases();

/** The distance between two positions where an output is split, in characters. */
const STRIDE = sizeOf({ quick: 47, exhaustive: 1 });

/**
 * Returns a block in the form of the cases: texts trimmed, as engines differ in white space, arguments by value. The id
 * is compared only if the case has one.
 */
function seen({ kind, name = "", id, text, complete }: Block, wanted: CaseBlock | undefined): unknown {
  if (kind !== "call") return kind === "text" ? { text: text.trim() } : { reasoning: text.trim(), whole: complete };
  const ids = wanted && "id" in wanted && wanted.id !== undefined ? { id } : {};
  return complete
    ? { call: name, args: JSON.parse(text), ...ids }
    : { call: name, raw: asWritten(text).trim(), ...ids };
}

function trimmed(block: CaseBlock): unknown {
  const cut = (text: string) => text.trim();
  if ("text" in block) return { text: cut(block.text) };
  if ("reasoning" in block) return { ...block, reasoning: cut(block.reasoning) };
  return "raw" in block ? { ...block, raw: cut(block.raw) } : block;
}

describe.each(FAMILIES)("output of the family $family", (family) => {
  const tools = Object.entries(family.tools).map(([name, schema]) => ({
    name,
    parametersJsonSchema: JSON.stringify({ type: "object", ...schema }),
  }));
  const rows = family.cases.flatMap((each) =>
    (each.profiles ?? Object.keys(family.profiles)).map((profile) => ({ ...each, profile })),
  );

  test.each(rows)(
    "$profile: $what, however the output is split",
    ({ profile, output, thinking, cut, wants, gives }) => {
      const text = withWords(output, family, profile);
      const wanted = withWords(gives ?? wants, family, profile);
      const options = {
        markers: markersOf(profile),
        toolNames: tools.map(({ name }) => name),
        argumentTypes: argumentTypes(tools),
        startsInReasoning: thinking,
        end: cut ? "cut" : "stop",
      } as const;
      for (const pieces of [[text], ...splitsOf(text, 3, STRIDE)]) {
        const { blocks } = parsePieces(pieces, options);
        expectEqual(
          blocks.map((block, i) => seen(block, wanted[i])),
          wanted.map(trimmed),
        );
        for (const { kind, complete, text: shown } of blocks)
          if (kind === "call") expect(shown.includes(BREAK)).toBe(!complete && !cut);
      }
      if (gives) expect(wanted.map(trimmed)).not.toEqual(withWords(wants, family, profile).map(trimmed));
    },
  );
});

test("every profile has cases", () => {
  const covered = new Set(FAMILIES.flatMap(({ profiles }) => Object.keys(profiles)));
  expect(builtInProfiles().flatMap(({ name }) => (covered.has(name) ? [] : [name]))).toEqual([]);
});
