import type { PromptShape } from "../../boundary-hashes.ts";
import type { HeldPrefixes } from "../../held-prefixes.ts";
import type { Holder, PlacementMap } from "./placement-map.ts";

/** The longest part of a prompt that an endpoint holds. */
export type HeldPart = {
  readonly bytes: number;
  readonly tokens: number;
  /** The cached tokens behind the part, of an answer that the prompt continues. */
  readonly tailTokens: number;
  /** The belief that the part rests on; undefined where the endpoint reported it. */
  readonly belief: Holder | undefined;
};

/** The endpoints that hold a part of a prompt. */
export type HeldParts = {
  /** The longest part on each endpoint, by address; the longest first. */
  readonly byAddress: ReadonlyMap<string, HeldPart>;
  /** Whether the endpoint of the conversation's last turn is known. Otherwise another gateway may have placed it. */
  readonly upToDate: boolean;
};

/** The inputs of `heldParts`. */
export type HeldContext = {
  /** Beliefs about cached prefixes, by the prompts that this gateway sent to each endpoint. */
  readonly placements: PlacementMap;
  /** The prefixes that the endpoints report in their caches. */
  readonly prefixes: HeldPrefixes;
  /** Monotonic milliseconds of the pick. */
  readonly nowMs: number;
  /** Measured on earlier requests. */
  readonly learned: {
    /** The number of tokens per byte of prompt; above 0. */
    readonly tokensPerByte: number;
  };
};

/**
 * Finds the endpoints that hold a part of a prompt. A report counts; for endpoints that do not report, and for prompts
 * on their way, the prompts that this gateway sent there count. The cost grows with the new part of the conversation,
 * not with its length.
 */
export function heldParts(shape: PromptShape, context: HeldContext): HeldParts {
  const { boundaries, lastTurn } = shape;
  const found = new Map<string, HeldPart>();
  // An endpoint that holds a longer part holds the shorter ones, too.
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

/** Yields the endpoints that hold the prompt up to one of its boundaries. */
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
    // An endpoint that reports its cache includes the prefilled prefixes in its reports.
    if (!confirmed || !prefixes.fillOf(address)) yield [address, { bytes, tokens, tailTokens: 0, belief }];
  }
}
