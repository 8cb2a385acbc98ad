import { readChunk } from "../../../../../../engine/backends/openai-compatible/answer/chunk.ts";
import {
  ChunkReader,
  type ChunkReaderOptions,
} from "../../../../../../engine/backends/openai-compatible/answer/chunk-reader.ts";
import { SpelledMarks } from "../../../../../../engine/backends/openai-compatible/marks/spelled-marks.ts";
import type { FinishReason, Usage } from "../../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Block, foldBlocks } from "../../../output-parser/parse-output.ts";

export type ReadAnswer = {
  readonly blocks: readonly Block[];
  readonly reason: FinishReason;
  readonly matchedStop: string | undefined;
  readonly usage: Usage;
};

export function readerOf(options: Partial<ChunkReaderOptions> = {}): ChunkReader {
  let calls = 0;
  return new ChunkReader({
    reasoning: { open: "<think>", close: "</think>", afterOpen: "\n", beforeClose: "\n", afterClose: "\n\n" },
    marks: SpelledMarks.none,
    hideReasoning: false,
    begun: "",
    stops: [],
    callable: new Set(["run", "search"]),
    maxCalls: Number.POSITIVE_INFINITY,
    newCallId: () => `new-${calls++}`,
    callerStops: [],
    maxOutputTokens: undefined,
    contextWindow: 0,
    ...options,
  });
}

/** Reads an engine's chunks, and checks that the events are legal. */
export function readAnswer(chunks: readonly object[], options: Partial<ChunkReaderOptions> = {}): ReadAnswer {
  const reader = readerOf(options);
  const events = chunks.flatMap((chunk) => [...reader.read(readChunk(JSON.stringify(chunk)))]);
  const { events: rest, reason, matchedStop } = reader.end();
  return { blocks: foldBlocks([...events, ...rest]), reason, matchedStop, usage: reader.finalUsage() };
}

/** A chunk with one delta, and other fields of its choice. */
export function chunk(delta: object, choice: object = {}): object {
  return { choices: [{ index: 0, delta, ...choice }] };
}

export function callChunk(
  index: number,
  fields: { id?: string; name?: string; args?: string | null },
  choice = {},
): object {
  const { id, name, args } = fields;
  return chunk({ tool_calls: [{ index, id, function: { name, arguments: args } }] }, choice);
}

export const stop = chunk({}, { finish_reason: "stop" });
