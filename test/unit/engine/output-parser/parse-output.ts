import { OutputParser, type OutputParserOptions } from "../../../../engine/output-parser/output-parser.ts";
import type { Event, TokenLogprob } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { HERMES_MARKERS } from "../../../support/engine/hermes-markers.ts";
import { seededRandom } from "../../../support/seeded-random.ts";

export type Block = {
  kind: "text" | "reasoning" | "call";
  name?: string;
  id?: string;
  text: string;
  complete: boolean;
  logprobs: string[];
};

export type Parsed = { blocks: Block[]; matchedStop: string | undefined; finishedToolCalls: number };

export type ParseOptions = Partial<OutputParserOptions> & { end?: "stop" | "cut" };

/** Folds events to blocks; throws if they violate the rules of the stream. */
export function foldBlocks(events: readonly Event[]): Block[] {
  const blocks: Block[] = [];
  let open = -1;
  for (const { kind } of events) {
    if (kind?.$case === "blockStarted") {
      if (open !== -1) throw new Error("a block starts inside another");
      if (kind.value.index !== blocks.length) throw new Error("indexes are not dense");
      open = kind.value.index;
      const block = kind.value.block;
      if (block === undefined) throw new Error("a block without kind");
      const call = block.$case === "toolCall" ? { name: block.value.name, id: block.value.callId } : {};
      const name = block.$case === "toolCall" ? "call" : block.$case;
      blocks.push({ kind: name, ...call, text: "", complete: false, logprobs: [] });
    } else if (kind?.$case === "blockDelta") {
      const block = blocks[open];
      if (block === undefined || kind.value.index !== open) throw new Error("a delta outside its block");
      if (kind.value.text === "") throw new Error("an empty delta");
      if (Buffer.from(kind.value.text).toString() !== kind.value.text) throw new Error("half a character");
      block.text += kind.value.text;
      block.logprobs.push(...kind.value.logprobs.map((entry) => entry.token));
    } else if (kind?.$case === "blockEnded") {
      const block = blocks[open];
      if (block === undefined || kind.value.index !== open) throw new Error("an end outside its block");
      if (block.text === "") throw new Error("an empty block");
      block.complete = kind.value.complete;
      open = -1;
    } else {
      throw new Error("an event of another kind");
    }
  }
  if (open !== -1) throw new Error("a block is left open");
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
  const { matchedStop, finishedToolCalls } = parser;
  return { blocks: foldBlocks(events), matchedStop, finishedToolCalls };
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
