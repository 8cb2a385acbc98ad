import { expect, test } from "vitest";
import { type Block, type ParseOptions, parsePieces, splitsOf } from "./parse-output.ts";

/** An output in the form of Hermes, and its expected blocks. */
export type OutputSample = {
  readonly name: string;
  readonly output: string;
  readonly options?: ParseOptions;
  /** The kind or the name of a call, the text, and whether it is complete (default: true). */
  readonly blocks: readonly (readonly [kind: string, text: string, complete?: boolean])[];
  readonly matchedStop?: string;
};

/** Returns a call as models write it. */
export const call = (name: string, args: string) =>
  `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`;
/** The options of an output that begins inside the reasoning. */
export const THINKING: ParseOptions = { startsInReasoning: true };
/** The options of a truncated output. */
export const CUT: ParseOptions = { end: "cut" };

const short = (value: unknown) =>
  JSON.stringify(value, (_, entry) =>
    typeof entry === "string" && entry.length > 999
      ? `${entry.slice(0, 40)}… ${entry.length} ${entry.slice(-40)}`
      : entry,
  );
const label = (block: Block) => [block.kind === "call" ? block.name : block.kind, block.text, block.complete];

/** Creates a test for each sample. */
export function testSamples(samples: readonly OutputSample[]): void {
  test.each(samples)("parses $name, however the text is split", ({ output, options, blocks, matchedStop }) => {
    const wanted = blocks.map(([kind, text, complete = true]) => [kind, text, complete]);
    const splits = output.length > 10_000 ? [[output], output.match(/[\s\S]{1,999}/g) ?? []] : splitsOf(output, 200);
    for (const pieces of splits) {
      const parsed = parsePieces(pieces, options);
      expect(short(parsed.blocks.map(label)), short(pieces)).toBe(short(wanted));
      expect(parsed.matchedStop).toBe(matchedStop);
      const calls = blocks.filter(
        ([kind, , complete]) => kind !== "text" && kind !== "reasoning" && complete !== false,
      );
      expect(parsed.finishedToolCalls).toBe(calls.length);
    }
  });
}
