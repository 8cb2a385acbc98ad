import { expect, test } from "vitest";
import { type GrammarInput, grammarOf, worthReading } from "../../../../engine/caller-work/grammar-input.ts";
import { EngineError } from "../../../../engine/errors.ts";
import { AskedTexts, checkTexts } from "../../../../engine/grammar/validation/answer-check.ts";
import { argumentTypes } from "../../../../engine/tool-calls/argument-types.ts";
import type { Event } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { HOSTILE_SHAPES } from "../../../support/schemas/hostile-schema.ts";
import { randomSchema } from "../../../support/schemas/random-schema.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";
import { sizeOf } from "../../../support/size.ts";
import { FAMILIES, type Family, markersOf } from "../output-parser/families.ts";
import { foldBlocks, parserOf } from "../output-parser/parse-output.ts";

const CASES = sizeOf({ quick: 80, exhaustive: 600, promised: 20_000 });
const SHAPES = Object.values(HOSTILE_SHAPES);
/** The markers of every family, which are files. */
const MARKERS = new Map(FAMILIES.map(({ profile }) => [profile, markersOf(profile)]));
const DEEP = "@@deep@@";
const JUNK: readonly [unknown, ...unknown[]] =
  JSON.parse(`[null, true, 0, -1, 1e308, "", "x", "constructor", "__proto__",
  "#", "#/", "#anchor", "#/$defs/none", "(", "\\\\p{L}", [], {}, [[]], [{"toString": 1}], {"$ref": "#"}, {"type": "object"},
  {"anyOf": []}, {"const": {}}]`);

type Case = {
  readonly input: GrammarInput;
  readonly pieces: readonly string[];
};

function newCase(seed: number): Case {
  const random = new SeededRandom(seed);
  const schema = JSON.stringify(anySchema(random));
  const family = FAMILIES[random.below(FAMILIES.length)] ?? { profile: "hermes", write: () => "" };
  const tool = { name: "f", parametersJsonSchema: schema, strict: random.below(3) === 0 };
  const isAnswer = random.below(5) === 0;
  const strict = random.below(2) === 0;
  const input: GrammarInput = {
    tools: isAnswer ? [] : [tool, { name: "g", parametersJsonSchema: "", strict: random.below(2) === 0 }],
    mustCall: !isAnswer && random.below(2) === 0,
    maxCalls: 1 + random.below(3),
    constraint: isAnswer
      ? { kind: { $case: "jsonSchema", value: { name: "x", schemaJson: schema, strict } } }
      : undefined,
    reasoning: "none",
    markers: MARKERS.get(family.profile) ?? {},
  };
  return { input, pieces: piecesOf(random, output(random, family, schema)) };
}

function anySchema(random: SeededRandom): unknown {
  const kind = random.below(10);
  const size = random.below(200) === 0 ? 100 : 1 + random.below(4);
  const schema = kind < 7 ? SHAPES[random.below(SHAPES.length)]?.(random, size) : randomSchema(random);
  return kind % 2 === 0 ? schema : damaged(random, schema, 4);
}

/** Replaces a part of a value, or a keyword, by junk. */
function damaged(random: SeededRandom, value: unknown, room: number): unknown {
  if (typeof value !== "object" || value === null || room === 0 || random.below(6) === 0) return random.pick(JUNK);
  const keys = Object.keys(value);
  const at = random.below(Math.max(1, keys.length));
  if (Array.isArray(value)) return value.map((item, i) => (i === at ? damaged(random, item, room - 1) : item));
  return Object.fromEntries(
    Object.entries(value).map(([key, inner], i) => [key, i === at ? damaged(random, inner, room - 1) : inner]),
  );
}

/**
 * Possible model output: calls in its family's form, complete or truncated, with values of all kinds, and other text
 * around.
 */
function output(random: SeededRandom, family: Family, schema: string): string {
  const names = [...schema.matchAll(/"([a-z_]\w{0,20})":/g)].slice(0, 8).map(([, name = ""]) => name);
  const key = () =>
    random.below(3) > 0
      ? (names[random.below(Math.max(1, names.length))] ?? "a")
      : random.pick(["a", "", "__proto__", "k".repeat(300), "</arg_key>"]);
  const args = () => Object.fromEntries(Array.from({ length: random.below(4) }, () => [key(), anyValue(random)]));
  const calls = Array.from({ length: 1 + random.below(3) }, () => ({
    name: random.pick(["f", "f", "g", "none"]),
    args: args(),
  }));
  const depth = random.pick([3, 3, 3, 600, 9000]);
  const deep = random.pick([
    `${"[".repeat(depth)}1${"]".repeat(depth)}`,
    `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`,
  ]);
  const text = family.write(calls).replaceAll(`"${DEEP}"`, deep).replaceAll(DEEP, deep);
  const spliced =
    random.below(4) === 0 ? text.slice(0, random.below(text.length)) + text.slice(random.below(text.length)) : text;
  return (
    random.pick(["", "Well. ", "<think>\n", '{"a": 1}', "</think>"]) + spliced + random.pick(["", "\n", " Then.", text])
  );
}

function anyValue(random: SeededRandom): unknown {
  return random.pick<() => unknown>([
    () => random.below(100),
    () => "x".repeat(random.below(500)),
    () => DEEP,
    () => JSON.stringify(Array.from({ length: random.below(60) }, (_, i) => ({ i, s: "y".repeat(i % 9) }))),
    () => Array.from({ length: random.below(100) }, (_, i) => [i, { k: i }]),
    () => random.pick(["true", "None", "1e999", "-", "[", '"', "\\u12", "</parameter>"]),
    () => null,
    () => ({ a: { b: "c" }, __proto: 1 }),
  ])();
}

function piecesOf(random: SeededRandom, text: string): readonly string[] {
  const longest = random.pick([3, 20, 5000]);
  const pieces: string[] = [];
  for (let at = 0; at < text.length && pieces.length < 40; ) {
    const end = pieces.length === 39 ? text.length : at + 1 + random.below(longest);
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}

/** Runs a whole case, and counts its outcomes. */
function run({ input, pieces }: Case, count: (outcome: string) => void): void {
  try {
    const { text, gaveUp } = grammarOf(worthReading(input));
    count(gaveUp ? "grammar given up" : text === undefined ? "no grammar" : "grammar");
  } catch (error) {
    // Any other error fails the test.
    if (!(error instanceof EngineError && error.reason === "INVALID_SCHEMA")) throw error;
    count("schema refused");
  }
  const events = inProcess(input, pieces);
  const asked = new AskedTexts({
    outputConstraint: input.constraint,
    tools: input.tools.map((tool) => ({ ...tool, description: "", deferred: false, cacheBreakpoint: undefined })),
  });
  asked.see(events);
  for (const { kind } of foldBlocks(events)) count(`block of ${kind}`);
  if (asked.whole.length === 0) return;
  const { mismatches, unchecked } = checkTexts(asked.whole);
  count(unchecked > 0 ? "answer not checked" : mismatches.length > 0 ? "answer refused" : "answer allowed");
}

/** Parses the output as the backend in this process does. */
function inProcess({ tools, markers }: GrammarInput, pieces: readonly string[]): readonly Event[] {
  const onFault = (thrown: unknown) => {
    throw thrown;
  };
  const toolNames = tools.map(({ name }) => name);
  const parser = parserOf({ markers, toolNames, argumentTypes: argumentTypes(tools), onFault });
  const events = pieces.flatMap((piece) => [...parser.push(piece)]);
  return [...events, ...parser.end("stop")];
}

test(`no exception escapes for any schemas, answers and calls, and blocks are legal: ${CASES} cases`, () => {
  const outcomes = new Map<string, number>();
  for (let seed = 0; seed < CASES; seed += 1)
    run(newCase(seed), (outcome) => outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1));
  // All outcomes must be frequent; otherwise the cases would prove nothing.
  const wanted = ["grammar", "schema refused", "block of call", "block of text", "answer allowed", "answer refused"];
  for (const outcome of wanted) expect(outcomes.get(outcome), outcome).toBeGreaterThan(CASES / 100);
}, 600_000);
