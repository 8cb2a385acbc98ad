import { type BlockRuns, PieceCutter } from "./pieces.ts";
import type { RecordedBoundary, RecordedSession, RecordedTurn } from "./session-trace.ts";

const BLOCK_TOKENS = 512;

type RawArrival = {
  /** Milliseconds. */
  readonly timestamp: number;
  readonly input_length: number;
  readonly output_length: number;
  readonly hash_ids: readonly number[];
};

export type RecordedArrivals = { readonly requests: RecordedSession; readonly arrivalsMs: readonly number[] };

/** Parses requests in the form of Mooncake's traces, one JSON object per line, in order of arrival. */
export function readArrivals(text: string): RecordedArrivals {
  const raws: readonly RawArrival[] = text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
  const prompts = raws.map(({ input_length, hash_ids }) => hash_ids.slice(0, Math.floor(input_length / BLOCK_TOKENS)));
  const branches = branchesOf(prompts);
  const cutter = new PieceCutter();
  for (const prompt of prompts) cutter.cutAt(prompt.at(-1));
  for (const block of branches) cutter.cutAt(block);
  cutter.addHeadCuts(new Map());

  const boundaries: RecordedBoundary[] = [];
  const boundaryAt = new Map<number, number>();
  const turns = prompts.map((prompt, index): RecordedTurn => {
    const { input_length: tokens = 1, output_length: outputTokens = 1 } = raws[index] ?? {};
    const lastPiece = cutter.lastPiece(runsOf(prompt), BLOCK_TOKENS);
    let known = 0;
    const own = prompt.flatMap((block, at) => {
      if (!branches.has(block) || (at + 1) * BLOCK_TOKENS >= tokens) return [];
      const boundary = boundaryAt.get(block);
      if (boundary !== undefined) known += 1;
      if (boundary !== undefined) return [boundary];
      boundaries.push({ tokens: (at + 1) * BLOCK_TOKENS, piece: cutter.pieceEndingAt(block), sharedAs: undefined });
      boundaryAt.set(block, boundaries.length - 1);
      return [boundaries.length - 1];
    });
    boundaries.push({ tokens, piece: lastPiece, sharedAs: undefined });
    own.push(boundaries.length - 1);
    // The prefix common to all belongs to the application; other known boundaries belong to the conversation.
    const lastTurn = known > 1 ? known - 1 : undefined;
    const agent = own[1] ?? own[0] ?? 0;
    return { agent, pauseMs: 0, tokens, outputTokens, lastPiece, boundaries: own, lastTurn };
  });
  return { requests: { turns, pieces: cutter.pieces, boundaries }, arrivalsMs: arrivalsOf(raws) };
}

/**
 * Returns the arrival times. The trace rounds them, so that a dozen requests share a time every three seconds: they are
 * spread evenly up to the next time, because gateways without shared state would otherwise route all of them by the
 * state before.
 */
function arrivalsOf(raws: readonly RawArrival[]): readonly number[] {
  const arrivalsMs: number[] = [];
  for (let from = 0; from < raws.length; ) {
    const atMs = raws[from]?.timestamp ?? 0;
    let to = from + 1;
    while (raws[to]?.timestamp === atMs) to += 1;
    const stepMs = ((raws[to]?.timestamp ?? atMs) - atMs) / (to - from);
    for (let index = from; index < to; index += 1) arrivalsMs.push(atMs + (index - from) * stepMs);
    from = to;
  }
  return arrivalsMs;
}

function branchesOf(prompts: readonly (readonly number[])[]): ReadonlySet<number> {
  const next = new Map<number, number>();
  const branches = new Set<number>();
  for (const prompt of prompts)
    for (const [at, block] of prompt.entries()) {
      const after = prompt[at + 1] ?? -1;
      if ((next.get(block) ?? after) !== after) branches.add(block);
      next.set(block, after);
    }
  return branches;
}

function runsOf(blocks: readonly number[]): BlockRuns {
  const runs: [number, number][] = [];
  for (const block of blocks) {
    const run = runs.at(-1);
    if (run && run[1] === block - 1) run[1] = block;
    else runs.push([block, block]);
  }
  return runs;
}
