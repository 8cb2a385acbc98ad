import { isDeepStrictEqual } from "node:util";
import { expect } from "vitest";
import { OutputParser, type OutputParserOptions } from "../../../../engine/output-parser/output-parser.ts";
import { EventOrder } from "../../../../gateway/upstream/call/event-order.ts";
import type { Event, TokenLogprob } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { HERMES_MARKERS } from "../../../support/engine/hermes-markers.ts";
import { answerOf } from "../../../support/events/answer-of.ts";
import { finished, started } from "../../../support/events/events.ts";
import { seededRandom } from "../../../support/seeded-random.ts";

export type Block = {
  kind: "text" | "reasoning" | "call";
  name?: string;
  id?: string;
  text: string;
  complete: boolean;
  logprobs: string[];
};

export type Parsed = { blocks: Block[]; matchedStop: string | undefined; endedCalls: number };

export type ParseOptions = Partial<OutputParserOptions> & { end?: "stop" | "cut" };

const [BEGIN, END] = [started(), finished()];

/** Folds events to blocks; throws if they violate the rules of the stream. */
export function foldBlocks(events: readonly Event[]): Block[] {
  const order = new EventOrder();
  const illegal = [BEGIN, ...events, END].find((event) => !order.allows(event));
  if (illegal) throw new Error(`an illegal event: ${JSON.stringify(illegal)}`);
  const blocks = answerOf(events).blocks.map(({ kind, ...block }): Block => {
    if (block.text === "") throw new Error("an empty block");
    return { ...block, kind: kind === "toolCall" ? "call" : kind, logprobs: [] };
  });
  for (const { kind } of events) {
    if (kind?.$case !== "blockDelta") continue;
    const { index, text, logprobs } = kind.value;
    if (Buffer.from(text).toString() !== text) throw new Error("half a character");
    blocks[index]?.logprobs.push(...logprobs.map((entry) => entry.token));
  }
  return blocks;
}

export function parserOf(options: ParseOptions): OutputParser {
  let calls = 0;
  return new OutputParser({
    markers: HERMES_MARKERS,
    startsInReasoning: false,
    toolNames: ["search", "run"],
    stop: [],
    newCallId: () => `call-${calls++}`,
    ...options,
  });
}

/** Returns the result of the pieces and the end. */
export function parsePieces(pieces: readonly string[], options: ParseOptions = {}): Parsed {
  const parser = parserOf(options);
  const events = pieces.flatMap((piece) => [...parser.push(piece)]);
  events.push(...parser.end(options.end ?? "stop"));
  const { matchedStop, endedCalls } = parser;
  return { blocks: foldBlocks(events), matchedStop, endedCalls };
}

/** Asserts as `toEqual` does, for thousands of splits: an assertion of vitest on equal values costs as much as a parse. */
export function expectEqual(seen: unknown, wanted: unknown, what: () => string = () => ""): void {
  if (!isDeepStrictEqual(seen, wanted)) expect(seen, what()).toEqual(wanted);
}

/** Returns the kind, or the name of a call, and the text of each block; an ellipsis marks an incomplete block. */
export function labels(blocks: readonly Block[]): string[] {
  return blocks.flatMap(({ kind, name, text, complete }) => [`${name ?? kind}${complete ? "" : "…"}`, text]);
}

export function logprob(token: string): TokenLogprob {
  return { token, tokenBytes: Buffer.from(token), logprob: -1, alternatives: [] };
}

/**
 * Yields splits of a text between whole characters: in two at every (`stride`-th) position, into single characters, and
 * `count` random ones.
 */
export function* splitsOf(text: string, count: number, stride = 1): Generator<string[]> {
  const chars = [...text];
  for (let at = 0; at <= chars.length; at += stride) yield [chars.slice(0, at).join(""), chars.slice(at).join("")];
  yield chars;
  const random = seededRandom(chars.length);
  for (let round = 0; round < count; round += 1) {
    const pieces: string[] = [];
    for (let at = 0; at < chars.length; ) {
      const length = 1 + Math.floor(random() * 7);
      pieces.push(chars.slice(at, at + length).join(""));
      at += length;
    }
    yield pieces;
  }
}
