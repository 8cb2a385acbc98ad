import type { PrefixMark } from "../../../prefixes/prefix-marks.ts";
import { NO_BLOCK } from "./token-chain.ts";

/**
 * The most tokens that a template writes after the last message to open the answer. Up to as many tokens before the
 * last digest's position are reported in its tail.
 */
const OPENING_TOKENS = 32;

/** The blocks of a digest in the engine's cache. */
export type Tie = {
  readonly model: string;
  /** The hash of the last block that must be held for the prefix to be. */
  readonly hash: number;
  /** The number of blocks up to that one. */
  readonly depth: number;
  /** The tokens of the whole blocks up to the position, or fewer if the position is not exact. */
  readonly tokens: number;
  readonly isExact: boolean;
  /** Whether tokens behind the position are reported with this digest, and not with a later one. */
  readonly hasTail: boolean;
};

/** A tokenized prompt, with the positions that digests name in it. */
export type ReadPrompt = {
  readonly model: string;
  readonly marks: readonly PrefixMark[];
  readonly tokens: ArrayLike<number>;
  readonly hashes: readonly number[];
  readonly blockTokens: number;
};

export type KnownTies = {
  tieOf(digest: string): Tie | undefined;
  /** Returns the number of blocks that a tie has in common with other blocks; undefined if its own are gone. */
  commonBlocks(tie: Tie, hashes: readonly number[]): number | undefined;
};

/**
 * Maps the digests of a prompt to its blocks. The last digest is at the end of the prompt. Any other one is where its
 * prompts part: the blocks that all of them have in common. While they have not parted, the digest is reported as held
 * if everything up to the next known position is, with the tokens of the one before, so that no report is too large.
 */
export function tiesOf(prompt: ReadPrompt, known: KnownTies): ReadonlyMap<string, Tie> {
  const { model, marks, hashes, blockTokens } = prompt;
  const places = placesOf(prompt, known);
  const result = new Map<string, Tie>();
  let before = 0;
  for (const [index, { digest }] of marks.entries()) {
    const own = places[index];
    before = own ?? before;
    const depth = own ?? places.slice(index).find((one) => one !== undefined) ?? 0;
    const hash = hashes[depth - 1] ?? NO_BLOCK;
    const isExact = own !== undefined;
    const hasTail = isExact && own !== places[index + 1];
    result.set(digest, { model, hash, depth, tokens: before * blockTokens, isExact, hasTail });
  }
  return result;
}

/** Returns the number of blocks up to the position of each digest, which never decreases; undefined if unknown. */
function placesOf(
  { marks, tokens, hashes, blockTokens }: ReadPrompt,
  known: KnownTies,
): readonly (number | undefined)[] {
  const last = Math.min(hashes.length, Math.floor(Math.max(0, tokens.length - OPENING_TOKENS) / blockTokens));
  const placeOf = (digest: string): number | undefined => {
    const tie = known.tieOf(digest);
    if (!tie) return undefined;
    if (tie.hash !== (hashes[tie.depth - 1] ?? NO_BLOCK)) return known.commonBlocks(tie, hashes);
    return tie.isExact ? tie.depth : undefined;
  };
  let least = 0;
  return marks.map(({ digest }, index) => {
    const place = index === marks.length - 1 ? last : placeOf(digest);
    if (place !== undefined) least = Math.max(least, place);
    return place === undefined ? undefined : least;
  });
}
