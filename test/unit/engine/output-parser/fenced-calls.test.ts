import { describe, expect, test } from "vitest";
import { FAMILIES, optionsOf, type SampleCall, withoutStrays } from "./families.ts";
import {
  type Block,
  expectEqual,
  foldBlocks,
  type ParseOptions,
  parsePieces,
  parserOf,
  splitsOf,
} from "./parse-output.ts";

const SEARCH: SampleCall = { name: "search", args: { q: "a b", n: 3 } };
const UNKNOWN: SampleCall = { name: "rm", args: { path: "/" } };
/** Families whose calls contain fences or stand between marks around text: a fenced call is never an example there. */
const WITHOUT_EXAMPLES = ["deepseek-v3", "deepseek-r1", "gpt-oss", "kimi-k3"];

const seen = ({ kind, name, text }: Block) => (kind === "call" ? [name, JSON.parse(text)] : [kind, text.trim()]);
const SEARCHED = [SEARCH.name, SEARCH.args];

/** Parses an output; the result must not depend on the split. */
function read(output: string, options: ParseOptions): unknown[] {
  const whole = parsePieces([output], options).blocks;
  for (const pieces of splitsOf(output, 3, 11)) expectEqual(parsePieces(pieces, options).blocks, whole);
  return whole.map(seen);
}

const marked = FAMILIES.filter(({ onlyAtStart }) => !onlyAtStart);

describe.each(marked)("calls in a code fence, as $profile writes them", ({ profile, write }) => {
  const options = optionsOf(profile);
  const call = write([SEARCH]);
  const hasExamples = !WITHOUT_EXAMPLES.includes(profile);

  test("calls in a code fence are text if other text follows, and so are those of an unknown tool", () => {
    for (const written of [call, write([SEARCH, SEARCH]), write([UNKNOWN])]) {
      const output = `So:\n\`\`\`xml\n${written}\n\`\`\`\nWell.`;
      const found = read(output, options);
      if (hasExamples || written.includes("rm"))
        expect(found.map((block) => String(block).slice(0, 4))).toEqual(["text"]);
      else expect(found).toContainEqual(SEARCHED);
      if (hasExamples) expect(withoutStrays(profile, String(found))).toContain(withoutStrays(profile, output));
    }
  });

  test("calls in a code fence are calls if the output ends with them", () => {
    const output = `\`\`\`md\n\`\`\`sh\nls\n\`\`\`\n\`\`\`\nNow:\n${call}`;
    expect(read(output, options).at(-1)).toEqual(SEARCHED);
    expect(read(`${output}\n\`\`\`\n`, options).some((block) => String(block) === String(SEARCHED))).toBe(!hasExamples);
  });

  test("calls in a code fence are calls if the fence is the whole text", () => {
    for (const fence of ["```", "~~~~"]) {
      const found = read(`${fence}xml\n${call}\n${fence}\n`, options);
      expect(found).toEqual([["text", `${fence}xml`], SEARCHED, ["text", fence]]);
    }
  });

  test("calls in a code fence are text if the output is truncated", () => {
    const { blocks } = parsePieces([`So:\n\`\`\`xml\n${call}`], { ...options, end: "cut" });
    expect(blocks.some(({ kind }) => kind === "call")).toBe(!hasExamples);
  });
});

const withExamples = marked.filter(({ profile }) => !WITHOUT_EXAMPLES.includes(profile));

test.each(withExamples)(
  "an incomplete example does not hide a call after it, as $profile writes them",
  ({ profile, write }) => {
    const call = write([SEARCH]);
    const half = call.slice(0, call.indexOf("a b") + 1);
    const found = read(`So:\n\`\`\`xml\n${half}\n\`\`\`\nNow:\n${call}`, optionsOf(profile));
    for (const block of found.filter((each) => !String(each).startsWith("text,"))) expect(block).toEqual(SEARCHED);
  },
);

describe("a code fence", () => {
  const options = optionsOf("hermes");
  const call = FAMILIES.find(({ profile }) => profile === "hermes")?.write([SEARCH]) ?? "";

  test("a code fence with a call in it holds back at most 64 Ki", () => {
    const parser = parserOf(options);
    const open = `So:\n\`\`\`\n${call.slice(0, call.indexOf("a b"))}`;
    const events = [...parser.push(open)];
    let shown = 0;
    for (let round = 0; round < 5; round += 1) events.push(...parser.push("word ".repeat(4000)));
    for (const { kind } of events) if (kind?.$case === "blockDelta") shown += kind.value.text.length;
    expect(shown).toBeGreaterThan(30_000);
    const { length } = foldBlocks([...events, ...parser.end("stop")]);
    expect(length).toBe(1);
  });

  test("a code fence does not hide a stop string in it", () => {
    const { blocks, matchedStop } = parsePieces([`So:\n\`\`\`\n${call}\n\`\`\`\nWell.`], { ...options, stop: ["a b"] });
    expect(blocks.map(({ kind }) => kind)).toEqual(["text"]);
    expect(matchedStop).toBe("a b");
  });
});
