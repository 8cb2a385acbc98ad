import { BREAK } from "../../../deploy/runtime/contract/broken-arguments.ts";
import { type Event, FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { blockEnd, delta, finished, reasoningStart, started, textStart, toolCallStart } from "./events.ts";

const KINDS = ["text", "reasoning", "toolCall"] as const;

type Block = { readonly kind: (typeof KINDS)[number]; readonly deltas: 0 | 1 | 2; readonly broken?: true };

/** The shape of an answer: one block after the other; the last one may be truncated. */
export type Shape = { readonly blocks: readonly Block[]; readonly cut: boolean };

const BLOCKS: readonly Block[] = [
  ...KINDS.flatMap((kind) => ([0, 1, 2] as const).map((deltas) => ({ kind, deltas }))),
  { kind: "toolCall", deltas: 2, broken: true },
];

const PIECES: Readonly<Record<Block["kind"], readonly string[]>> = {
  text: ["One\n", '"two"'],
  reasoning: ["First ", "look."],
  toolCall: ['{"path":', '"a.ts"}'],
};

/**
 * Yields every answer of up to `maxBlocks` blocks of every kind, with none to two deltas each, whole and truncated, and
 * of up to two with calls that the model broke.
 */
export function* shapes(maxBlocks: number): Generator<Shape> {
  let level: (readonly Block[])[] = [[]];
  yield { blocks: [], cut: false };
  for (let length = 1; length <= maxBlocks; length += 1) {
    level = level
      .flatMap((blocks) => BLOCKS.map((block) => [...blocks, block]))
      .filter((blocks) => length <= 2 || blocks.every(({ broken }) => !broken));
    for (const blocks of level) {
      yield { blocks, cut: false };
      yield { blocks, cut: true };
    }
  }
}

/** Returns the possible reasons for the end of an answer of this shape: a truncated one does not stop normally. */
export function reasonsOf({ blocks, cut }: Shape): FinishReason[] {
  const cuts = [FinishReason.MAX_OUTPUT_TOKENS, FinishReason.CONTEXT_WINDOW, FinishReason.CONTENT_FILTER];
  if (cut) return cuts;
  const natural = [FinishReason.STOP, FinishReason.STOP_SEQUENCE, FinishReason.UNSPECIFIED, ...cuts];
  return blocks.some((block) => block.kind === "toolCall") ? [FinishReason.TOOL_CALLS, ...natural] : natural;
}

export function eventsOf({ blocks, cut }: Shape, reason: FinishReason): Event[] {
  const usage = { inputTokens: 40, cachedInputTokens: 32, outputTokens: 9, reasoningTokens: 5 };
  const stop = reason === FinishReason.STOP_SEQUENCE ? { matchedStop: "END" } : {};
  return [
    started({ inputTokens: 40, cachedInputTokens: 32 }),
    ...blocks.flatMap((block, index) => blockEvents(block, index, cut && index === blocks.length - 1)),
    finished(reason, usage, stop),
  ];
}

function blockEvents({ kind, deltas, broken }: Block, index: number, cut: boolean): Event[] {
  const start =
    kind === "toolCall" ? toolCallStart(index, "read") : kind === "text" ? textStart(index) : reasoningStart(index);
  const all = broken ? ['{"path":', `${BREAK}a.ts}`] : pieces(kind, deltas, cut);
  return [start, ...all.map((piece) => delta(index, piece)), blockEnd(index, !cut && broken !== true)];
}

function pieces(kind: Block["kind"], deltas: number, cut: boolean): readonly string[] {
  const all = PIECES[kind];
  if (kind !== "toolCall") return all.slice(0, deltas);
  // The whole arguments are one JSON object, in any number of pieces.
  if (cut) return ['{"path":', '"a'].slice(0, deltas);
  return deltas === 1 ? [all.join("")] : all.slice(0, deltas);
}
