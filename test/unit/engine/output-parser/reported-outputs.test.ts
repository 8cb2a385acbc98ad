import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { argumentTypes } from "../../../../engine/tool-calls/argument-types.ts";
import { seededRandom } from "../../../support/seeded-random.ts";
import { sizeOf } from "../../../support/size.ts";
import { markersOf } from "./families.ts";
import { type Block, expectEqual, parsePieces, splitsOf } from "./parse-output.ts";

type Reported = {
  readonly report: string;
  readonly what: string;
  readonly profile: string;
  readonly output: string;
  /** Whether the prompt ended inside the reasoning. */
  readonly thinking?: boolean;
  readonly cut?: boolean;
  readonly wants: readonly unknown[];
};

type Table = {
  readonly tools: Readonly<Record<string, object>>;
  readonly words: Readonly<Record<string, string>>;
  readonly outputs: readonly Reported[];
};

const FILE = join(import.meta.dirname, "reported-outputs.yaml");
const { tools, words, outputs }: Table = parse(readFileSync(FILE, "utf8"));

const TOOLS = Object.entries(tools).map(([name, schema]) => ({
  name,
  parametersJsonSchema: JSON.stringify({ type: "object", ...schema }),
}));

/** The distance between two positions where an output is split, in characters. */
const STRIDE = sizeOf({ quick: 7, exhaustive: 1 });
const RANDOM_SPLITS = sizeOf({ quick: 3, exhaustive: 40 });

/** The number of texts of marks in any order, and of fragments in each. */
const MIXTURES = { texts: sizeOf({ quick: 20, exhaustive: 60 }), fragments: 12 };

const options = {
  toolNames: TOOLS.map(({ name }) => name),
  argumentTypes: argumentTypes(TOOLS),
};

const written = (text: string) => text.replaceAll(/\{\{(\w+)\}\}/g, (all, word: string) => words[word] ?? all);

function seen({ kind, name, text, complete }: Block): unknown {
  if (kind !== "call") return { [kind]: text.trim() };
  return complete ? { call: name, args: JSON.parse(text) } : { call: name, raw: text };
}

test.each(outputs)("$report: $what ($profile)", ({ profile, output, thinking = false, cut = false, wants }) => {
  const text = written(output);
  const wanted: unknown = JSON.parse(JSON.stringify(wants), (_, value) =>
    typeof value === "string" ? written(value) : value,
  );
  const given = {
    ...options,
    markers: markersOf(profile),
    startsInReasoning: thinking,
    end: cut ? "cut" : "stop",
  } as const;
  for (const pieces of [[text], ...splitsOf(text, RANDOM_SPLITS, STRIDE)])
    expectEqual(parsePieces(pieces, given).blocks.map(seen), wanted, () => JSON.stringify(pieces));
});

test.each([...new Set(outputs.map(({ profile }) => profile))])(
  "marks in any order give the same blocks, however the output is split (%s)",
  (profile) => {
    const own = outputs.filter((each) => each.profile === profile).map(({ output }) => written(output));
    const fragments = [...new Set(own.flatMap((text) => text.split(/(?=[<\]])|(?<=>)/)))];
    const random = seededRandom(fragments.length);
    const any = () => fragments[Math.floor(random() * fragments.length)] ?? "";
    const given = { ...options, markers: markersOf(profile) };
    for (let round = 0; round < MIXTURES.texts; round += 1) {
      const text = Array.from({ length: MIXTURES.fragments }, any).join("");
      const { blocks } = parsePieces([text], given);
      for (const { kind, complete, text: args } of blocks)
        if (kind === "call" && complete) expect(JSON.parse(args), text).toBeTypeOf("object");
      for (const pieces of splitsOf(text, 2, text.length))
        expectEqual(parsePieces(pieces, given).blocks, blocks, () => text);
    }
  },
);
