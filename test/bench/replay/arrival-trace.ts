import type { RecordedPiece } from "./pieces.ts";
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
  const lines = text.split("\n").filter((line) => line !== "");
  const raws = lines.map((line): RawArrival => JSON.parse(line));
  const prompts = raws.map(({ input_length, hash_ids }) => hash_ids.slice(0, Math.floor(input_length / BLOCK_TOKENS)));
  const branches = branchesOf(prompts);
  // An id stands for its block and all blocks before it.
  const pieces: RecordedPiece[] = [];
  const boundaries: RecordedBoundary[] = [];
  const [pieceOf, boundaryOf] = [new Map<number, number>(), new Map<number, number>()];
  const turns = prompts.map((prompt, index): RecordedTurn => {
    const { input_length: tokens = 1, output_length: outputTokens = 1 } = raws[index] ?? {};
    const own: number[] = [];
    let known = 0;
    let piece = -1;
    for (const [at, block] of prompt.entries()) {
      const parent = piece;
      piece = pieceOf.get(block) ?? pieces.push({ parent, tokens: BLOCK_TOKENS, sharedAs: undefined }) - 1;
      pieceOf.set(block, piece);
      const end = (at + 1) * BLOCK_TOKENS;
      if (!branches.has(block) || end >= tokens) continue;
      if (boundaryOf.has(block)) known += 1;
      const boundary = boundaryOf.get(block) ?? boundaries.push({ tokens: end, piece, sharedAs: undefined }) - 1;
      boundaryOf.set(block, boundary);
      own.push(boundary);
    }
    own.push(boundaries.push({ tokens, piece, sharedAs: undefined }) - 1);
    // The prefix common to all belongs to the application; other known boundaries belong to the conversation.
    const lastTurn = known > 1 ? known - 1 : undefined;
    const agent = own[1] ?? own[0] ?? 0;
    const lastPiece = piece;
    return { agent, pauseMs: 0, tokens, outputTokens, callsTools: false, lastPiece, boundaries: own, lastTurn };
  });
  return { requests: { turns, pieces, boundaries }, arrivalsMs: spread(raws.map(({ timestamp }) => timestamp)) };
}

/** Spreads times up to the next one: the trace rounds them, and so a dozen requests share a time every three seconds. */
function spread(times: readonly number[]): readonly number[] {
  const spreadMs: number[] = [];
  for (let from = 0; from < times.length; ) {
    const atMs = times[from] ?? 0;
    const behind = times.findIndex((time, index) => index > from && time !== atMs);
    const to = behind < 0 ? times.length : behind;
    const stepMs = ((times[to] ?? atMs) - atMs) / (to - from);
    for (let index = from; index < to; index += 1) spreadMs.push(atMs + (index - from) * stepMs);
    from = to;
  }
  return spreadMs;
}

/** Returns the blocks behind which prompts part. */
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
