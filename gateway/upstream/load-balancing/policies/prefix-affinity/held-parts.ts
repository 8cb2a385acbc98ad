import type { PromptShape } from "../../boundary-hashes.ts";
import type { HeldPrefixes } from "../../held-prefixes.ts";
import type { Holder, PlacementMap } from "./placement-map.ts";

/** The longest part of a prompt that an endpoint holds. */
export type HeldPart = {
  /** The part's size in bytes of the prompt. */
  readonly bytes: number;
  /** The part's size in tokens. */
  readonly tokens: number;
  /** The tokens that are held behind the part, of an answer with which the prompt goes on. */
  readonly tailTokens: number;
  /** The belief that says so; undefined where the endpoint told it. */
  readonly belief: Holder | undefined;
};

/** Who holds how much of a prompt. */
export type HeldParts = {
  /** The longest part that each endpoint holds, by address; who holds most comes first. */
  readonly byAddress: ReadonlyMap<string, HeldPart>;
  /** Whether it is known who had the conversation's last turn. Where it is not, another gateway may have placed it. */
  readonly upToDate: boolean;
};

/** What the parts of a prompt that are held are found by. */
export type HeldContext = {
  /** The beliefs on which endpoints hold which prefixes, by what this gateway has sent where. */
  readonly placements: PlacementMap;
  /** What the endpoints tell of their caches. */
  readonly prefixes: HeldPrefixes;
  /** Monotonic milliseconds of the pick. */
  readonly nowMs: number;
  /** What earlier requests have taught. */
  readonly learned: {
    /** The number of tokens to a byte of prompt; above 0. */
    readonly tokensPerByte: number;
  };
};

/**
 * Finds who holds how much of a prompt: what endpoints tell counts, and of those that do not tell, or of prompts that
 * are yet on their way, what this gateway has sent them. It costs as much as is new of the conversation, not as much as
 * is long.
 */
export function heldParts(shape: PromptShape, context: HeldContext): HeldParts {
  const { boundaries, lastTurn } = shape;
  const found = new Map<string, HeldPart>();
  // Whoever holds a longer part holds the shorter ones, too.
  const holders = new Set<string>();
  for (const [address] of partsAt(shape, 1, context)) holders.add(address);
  let longest = 0;
  const look = (index: number) => {
    for (const [address, part] of partsAt(shape, index, context)) {
      longest = Math.max(longest, index);
      if (!found.has(address)) found.set(address, part);
    }
  };
  for (let index = boundaries.length - 1; index > 1 && found.size < holders.size; index -= 1) look(index);
  look(1);
  look(0);
  return { byAddress: found, upToDate: longest > 0 && longest >= (lastTurn ?? 0) };
}

/** Yields who holds the prompt up to one of its boundaries. */
function* partsAt(
  { boundaries }: PromptShape,
  index: number,
  { placements, prefixes, nowMs, learned }: HeldContext,
): Generator<readonly [address: string, part: HeldPart]> {
  const boundary = boundaries[index];
  if (!boundary) return;
  const { hash, bytes } = boundary;
  const nextBytes = boundaries[index + 1]?.bytes ?? bytes;
  for (const { address, tokens, tailTokens } of prefixes.holders(hash)) {
    const tail = Math.min(tailTokens, (nextBytes - bytes) * learned.tokensPerByte);
    yield [address, { bytes, tokens, tailTokens: tail, belief: undefined }];
  }
  for (const belief of placements.holders(hash, nowMs)) {
    const { address, tokens, confirmed } = belief;
    // What an endpoint has prefilled, it tells itself.
    if (!confirmed || !prefixes.fillOf(address)) yield [address, { bytes, tokens, tailTokens: 0, belief }];
  }
}
