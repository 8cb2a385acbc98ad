import { describe, expect, test } from "vitest";
import { asWritten, BREAK } from "../../../../deploy/runtime/contract/broken-arguments.ts";
import { JsonScanner } from "../../../../engine/tool-calls/json-scanner.ts";
import { seededRandom } from "../../../support/seeded-random.ts";
import { sizeOf } from "../../../support/size.ts";
import { FAMILIES, markersOf, optionsOf, type SampleCall, withoutStrays } from "./families.ts";
import {
  type Block,
  expectEqual,
  foldBlocks,
  type ParseOptions,
  parsePieces,
  parserOf,
  splitsOf,
} from "./parse-output.ts";

/** The distance between two positions where an output is split, truncated or damaged, in characters. */
const STRIDE = sizeOf({ quick: 31, exhaustive: 3, promised: 1 });
const RANDOM_SPLITS = sizeOf({ quick: 2, exhaustive: 20 });
/** The distance between two positions where a call ends and filler follows. */
const FILLER_STRIDE = sizeOf({ quick: 37, exhaustive: 7 });

const SEARCH: SampleCall = {
  name: "search",
  args: { q: 'a "b"\n<c> 😀 \\', n: 3, deep: true, tags: ["x", "}"], maybe: null, free: "17 x" },
};
const RUN: SampleCall = { name: "run", args: {} };
const UNKNOWN: SampleCall = { name: "rm", args: { path: "/", force: true } };

/** Returns a block in comparable form: complete arguments by value. */
function seen({ kind, name, text, complete }: Block): unknown {
  if (kind !== "call") return [kind, text.trim(), complete];
  return complete ? [name, JSON.parse(text)] : [name, text, complete];
}

const called = ({ name, args }: SampleCall) => [name, args];
const textOf = (blocks: readonly Block[]) =>
  blocks.flatMap(({ kind, text }) => (kind === "text" ? [text] : [])).join("");

/** Checks the invariants of any output: the arguments of a call are JSON up to their end, or to the break. */
function check(blocks: readonly Block[], end: ParseOptions["end"] = "stop"): void {
  for (const { kind, text, complete } of blocks) {
    if (kind !== "call") continue;
    if (complete) {
      expect(JSON.parse(text)).toBeTypeOf("object");
    } else {
      const [json = "", ...rest] = text.split(BREAK);
      expect(new JsonScanner({ root: "object" }).push(json).state, text).toBe("incomplete");
      if (end === "stop") expect(rest.length, text).toBe(1);
    }
  }
}

/** Parses the whole text and small pieces, and returns their common result. */
function parseAnyhow(text: string, options: ParseOptions): Block[] {
  const whole = parsePieces([text], options).blocks;
  const pieces = text.match(new RegExp(`[\\s\\S]{1,${1 + (text.length % 7)}}`, "gu")) ?? [];
  expectEqual(parsePieces(pieces, options).blocks, whole, () => text);
  check(whole, options.end);
  return whole;
}

/** The closing marks of the values `q` and `n`, of families whose arguments are tags. */
function closingMarks(profile: string): readonly string[] {
  const { toolCall } = markersOf(profile);
  if (toolCall?.form === "named-tags") return [toolCall.parameterClose.trim()];
  if (toolCall?.form === "key-value-tags") return [toolCall.valueClose.trim()];
  return toolCall?.form === "element-tags" ? ["q", "n"].map((key) => `${toolCall.tagMark}</${key}>`) : [];
}

function closingMarksOfCalls(profile: string): readonly string[] {
  const { toolCall } = markersOf(profile);
  if (toolCall === undefined || !("close" in toolCall)) return [];
  return [toolCall.close, "callClose" in toolCall ? toolCall.callClose : ""]
    .map((mark) => mark.trim())
    .filter((mark) => mark !== "");
}

describe.each(FAMILIES)("calls as $profile writes them", ({ profile, write, onlyAtStart = false, whole }) => {
  const options = optionsOf(profile);
  const { reasoning } = markersOf(profile);
  const plain = (text: string) => withoutStrays(profile, text);
  const before = onlyAtStart ? "" : "Let me look.\n";
  const spoken = onlyAtStart ? [] : [["text", "Let me look.", true]];

  test.each([
    ["one", [SEARCH]],
    ["one without arguments", [RUN]],
    ["several", [SEARCH, RUN, SEARCH]],
  ])("%s, between texts, however the output is split", (_, calls) => {
    const output = `${before}${write(calls)}\nDone.`;
    for (const pieces of splitsOf(output, RANDOM_SPLITS, STRIDE)) {
      const { blocks, endedCalls } = parsePieces(pieces, options);
      expectEqual(blocks.map(seen), [...spoken, ...calls.map(called), ["text", "Done.", true]]);
      expect(endedCalls).toBe(calls.length);
    }
  });

  if (reasoning)
    test("calls after reasoning, however the output is split", () => {
      const output = `Hm.${reasoning.close}${reasoning.afterClose}${write([SEARCH, RUN])}`;
      const wanted = [["reasoning", "Hm.", true], called(SEARCH), called(RUN)];
      for (const pieces of splitsOf(`${reasoning.open}${output}`, RANDOM_SPLITS, STRIDE)) {
        expectEqual(parsePieces(pieces, options).blocks.map(seen), wanted);
      }
      const opened = parseAnyhow(output, { ...options, startsInReasoning: true });
      expect(opened.map(seen)).toEqual(wanted);
    });

  if (reasoning)
    test("calls inside the reasoning are reasoning, unless the family ends reasoning so", () => {
      const { open, close, afterClose, endedByCall } = reasoning;
      const output = `${open}I could ${write([RUN])} or not.${close}${afterClose}Done.`;
      for (const pieces of splitsOf(output, RANDOM_SPLITS, STRIDE)) {
        const kinds = parsePieces(pieces, options).blocks.map(({ kind }) => kind);
        if (endedByCall) expect(kinds.slice(0, 2)).toEqual(["reasoning", "call"]);
        else expect(kinds).toEqual(["reasoning", "text"]);
      }
    });

  const closing = closingMarks(profile);
  if (closing.length > 0)
    test("calls lose the second of two closing marks of a value, unless it closes a parameter in the value", () => {
      const call = { name: "search", args: { q: "ls", n: 3 } };
      for (const space of ["", "\n"]) {
        const twice = closing.reduce((text, mark) => text.replaceAll(mark, mark + space + mark), write([call, call]));
        for (const pieces of splitsOf(twice, RANDOM_SPLITS, STRIDE))
          expect(parsePieces(pieces, options).blocks.map(seen)).toEqual([called(call), called(call)]);
        const cut = twice.slice(0, twice.lastIndexOf(closing.at(-1) ?? "") + (closing.at(-1) ?? "").length);
        const args = parseAnyhow(cut, options).at(-1)?.text ?? "";
        expect(asWritten(args).replaceAll(/[\s}]/g, "")).toBe('{"q":"ls","n":3');
      }
      const { toolCall } = markersOf(profile);
      if (toolCall?.form !== "named-tags") return;
      const { parameterOpen, parameterNameEnd, parameterClose, typedNameEnds } = toolCall;
      const end = typedNameEnds?.text ?? parameterNameEnd;
      const own = { name: "search", args: { q: `${parameterOpen}x${end}y${parameterClose.trim()}` } };
      expect(parseAnyhow(write([own]), options).map(seen)).toEqual([called(own)]);
    });

  const behindCall = closingMarksOfCalls(profile);
  if (behindCall.length > 0)
    test("calls lose a second closing mark behind a call or a group; those of unknown tools keep it", () => {
      const output = `${write([SEARCH, RUN])}\nDone.`;
      for (const mark of behindCall)
        for (const space of ["", "\n"])
          for (const pieces of splitsOf(output.replaceAll(mark, mark + space + mark), RANDOM_SPLITS, STRIDE))
            expect(parsePieces(pieces, options).blocks.map(seen)).toEqual([
              ...[SEARCH, RUN].map(called),
              ["text", "Done.", true],
            ]);
      const unknown = parseAnyhow(
        behindCall.reduce((text, mark) => text.replaceAll(mark, mark + mark), write([UNKNOWN])),
        options,
      );
      for (const mark of behindCall) expect(plain(textOf(unknown)).split(mark).length).toBe(plain(mark) === "" ? 1 : 3);
    });

  test("calls keep marks in strings of the arguments, however the output is split", () => {
    const { toolCall = {} } = markersOf(profile);
    const marks = Object.entries(toolCall).flatMap(([name, mark]) =>
      typeof mark === "string" && !["form", "valueClose", "parameterClose", "textClose", "argumentsKey"].includes(name)
        ? [mark.trim()]
        : [],
    );
    const q = `a ${[...marks, ...(reasoning ? [reasoning.open, reasoning.close] : [])].join(" b ")} c`;
    const call = { name: "search", args: { q, n: 1 } };
    for (const pieces of splitsOf(write([call, RUN]), RANDOM_SPLITS, STRIDE)) {
      expect(parsePieces(pieces, options).blocks.map(seen)).toEqual([called(call), called(RUN)]);
    }
  });

  test("calls of an unknown tool are text, unchanged", () => {
    const output = `${before}${write([UNKNOWN])}`;
    for (const pieces of splitsOf(output, RANDOM_SPLITS, STRIDE)) {
      expect(parsePieces(pieces, options).blocks.map(({ kind, text }) => [kind, text])).toEqual([["text", output]]);
    }
  });

  test("calls end with the last one allowed", () => {
    for (const pieces of splitsOf(write([SEARCH, RUN]), RANDOM_SPLITS, STRIDE)) {
      const { blocks } = parsePieces(pieces, { ...options, maxToolCalls: 1 });
      expect(blocks.map(seen)).toEqual([called(SEARCH)]);
    }
  });

  test("calls are text if there are no tools", () => {
    const output = `${before}${write([SEARCH])}`;
    expect(parseAnyhow(output, { ...options, toolNames: [] }).map(({ text }) => text)).toEqual([output]);
  });

  test("truncated anywhere end in an incomplete block, or in text", () => {
    const output = write([SEARCH, RUN]);
    for (let at = 1; at < output.length; at += STRIDE) {
      const half = output.slice(0, at);
      if (Buffer.from(half).toString() !== half) continue;
      const cut = parseAnyhow(half, { ...options, end: "cut" });
      check(parsePieces([half], options).blocks);
      if (cut.every(({ kind }) => kind === "text")) expect(plain(textOf(cut))).toBe(plain(half));
    }
  });

  test("damaged anywhere give legal blocks, and keep the text before an unstarted call", () => {
    const output = write([SEARCH, RUN]);
    const random = seededRandom(output.length);
    const alphabet = '{}[]<>/"=:;,\\ \nax0';
    for (let at = 0; at < output.length; at += STRIDE) {
      const char = alphabet.charAt(Math.floor(random() * alphabet.length));
      const kept = Math.floor(random() * 2);
      const damaged = output.slice(0, at) + (random() < 0.3 ? "" : char) + output.slice(at + kept);
      if (Buffer.from(damaged).toString() !== damaged) continue;
      const blocks = parseAnyhow(damaged, options);
      if (blocks.every(({ kind }) => kind === "text")) expect(plain(textOf(blocks))).toBe(plain(damaged));
    }
  });

  test("calls hold back at most 64 Ki after an opening mark", () => {
    const start = write([{ ...SEARCH, args: { ...SEARCH.args, q: "a b" } }]);
    const [from, to] = (whole ?? ["", ""]).map((tag) => start.indexOf(tag));
    for (let at = 1; at < start.length; at += FILLER_STRIDE) {
      if (whole && from !== undefined && to !== undefined && at > from && at < to + whole[1].length) continue;
      const parser = parserOf(options);
      const filler = "filler\n".repeat(2000);
      let given = 0;
      let shown = 0;
      const events = [...parser.push(start.slice(0, at))];
      for (let round = 0; round < 12; round += 1) {
        events.push(...parser.push(filler));
        given += filler.length;
      }
      for (const { kind } of events) if (kind?.$case === "blockDelta") shown += kind.value.text.length;
      expect(shown, start.slice(0, at)).toBeGreaterThan(given - 66_000);
      foldBlocks([...events, ...parser.end("stop")]);
    }
  });
});
