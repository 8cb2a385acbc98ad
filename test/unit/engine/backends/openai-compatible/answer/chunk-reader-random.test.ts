import { expect, test } from "vitest";
import { SeededRandom } from "../../../../../support/seeded-random.ts";
import { callChunk, chunk, readAnswer } from "./engine-answer.ts";

const ARGUMENTS = [
  '{"x": "a\\"}", "y": [1, {"z": null}]}',
  "{}",
  "",
  '{"cut": tr',
  "{junk",
  "nothing",
  '{} {"more": 1}',
  " ",
];
const NAMES = ["run", "search", "not_a_tool"] as const;
const PROSE = ["Hello ", "world", "\n", " ", "é✓", "<thi", "nk>", "</think>", "{", "<"] as const;
const FINISHES = ["stop", "length", "tool_calls", "content_filter"] as const;

/** Pieces of a call, cut at random positions. */
function callPieces(random: SeededRandom, index: number): object[] {
  const name = random.pick(NAMES);
  const args = ARGUMENTS[random.below(ARGUMENTS.length)] ?? "";
  const repeats = random.below(2) === 0;
  const head = { id: random.below(3) === 0 ? "same" : `id-${index}`, name };
  const cuts = [0, random.below(args.length + 1), random.below(args.length + 1), args.length].sort((a, b) => a - b);
  return [0, 1, 2].map((at) =>
    callChunk(index, { ...(at === 0 || repeats ? head : {}), args: args.slice(cuts[at], cuts[at + 1]) }),
  );
}

function randomStream(random: SeededRandom): object[] {
  const chunks: object[] = [];
  let calls = 0;
  for (let left = random.below(6); left > 0; left -= 1) {
    const kind = random.below(4);
    if (kind === 0) chunks.push(chunk({ reasoning_content: random.pick(PROSE) }));
    else if (kind <= 2) chunks.push(chunk({ content: random.pick(PROSE) }));
    else {
      const one = callPieces(random, calls++);
      const other = random.below(2) === 0 ? callPieces(random, calls++) : [];
      // Two calls with alternating fragments.
      while (one.length + other.length > 0) {
        const next = (random.below(2) === 0 && one.length > 0 ? one : other.length > 0 ? other : one).shift();
        if (next) chunks.push(next);
      }
    }
  }
  return [...chunks, chunk({}, { finish_reason: random.pick(FINISHES) })];
}

test("for any engine stream the events are legal and a complete call holds an object", () => {
  const random = new SeededRandom(20);
  let whole = 0;
  for (let round = 0; round < 3_000; round += 1) {
    const chunks = randomStream(random);
    const { blocks } = readAnswer(chunks, { hideReasoning: round % 5 === 0, maxCalls: round % 7 === 0 ? 1 : 9 });
    const ids = blocks.flatMap(({ id }) => (id === undefined ? [] : [id]));
    expect(new Set(ids).size).toBe(ids.length);
    for (const block of blocks.filter(({ kind, complete }) => kind === "call" && complete)) {
      whole += 1;
      expect(JSON.parse(block.text)).toBeTypeOf("object");
      expect(block.name).not.toBe("not_a_tool");
    }
  }
  expect(whole).toBeGreaterThan(500);
});

test("text without markers is unchanged, whatever is interleaved", () => {
  const random = new SeededRandom(21);
  for (let round = 0; round < 1_000; round += 1) {
    const pieces = Array.from({ length: 1 + random.below(8) }, () => random.pick(["ab", "c\n", " d", "{", "é"]));
    const chunks = pieces.flatMap((content, at) => [
      chunk({ content }),
      ...(random.below(3) === 0
        ? [chunk({ content: "" }), callChunk(at, { id: `${at}`, name: "run", args: "{}" })]
        : []),
    ]);
    const { blocks } = readAnswer([...chunks, chunk({}, { finish_reason: "stop" })]);
    const text = blocks.map((block) => (block.kind === "text" ? block.text : "")).join("");
    expect(text).toBe(pieces.join(""));
  }
});
