import type { PrefixMark } from "../../../prefixes/prefix-marks.ts";
import type { Tie } from "./engine-blocks.ts";
import { NO_BLOCK } from "./token-chain.ts";

/**
 * The most tokens that a template writes after the last message to open the answer. Up to as many tokens before the
 * last digest's position are reported in its tail.
 */
const OPENING_TOKENS = 32;

/** A tokenized prompt, with the positions that digests name in it. */
export type ReadPrompt = {
  readonly model: string;
  readonly marks: readonly PrefixMark[];
  readonly tokens: ArrayLike<number>;
  readonly hashes: readonly number[];
  readonly blockTokens: number;
};

/**
 * Maps the digests of a prompt to its blocks. The last digest is at the end of the prompt; the others are at their
 * earlier positions, unless the prompt has other tokens there. A digest without a known position lies between its
 * neighbours: it is reported as held if everything up to the next known position is, with the tokens of the previous
 * known position, so that no report is too large. `known` returns the earlier tie of a digest; `found` has positions
 * that were found since, as token counts.
 */
export function tiesOf(
  prompt: ReadPrompt,
  known: (digest: string) => Tie | undefined,
  found: ReadonlyMap<string, number> = new Map(),
): ReadonlyMap<string, Tie> {
  const { model, marks, hashes, blockTokens } = prompt;
  const blocks = placesOf(prompt, known, found);
  const hashAt = (count: number | undefined) => (count ? hashes[count - 1] : undefined) ?? NO_BLOCK;
  const result = new Map<string, Tie>();
  let before = 0;
  for (const [index, { digest }] of marks.entries()) {
    const own = blocks[index];
    before = own ?? before;
    const upTo = own ?? blocks.slice(index).find((one) => one !== undefined);
    const isExact = own !== undefined;
    const hasTail = isExact && own !== blocks[index + 1];
    result.set(digest, { model, hash: hashAt(upTo), tokens: before * blockTokens, isExact, hasTail });
  }
  return result;
}

/**
 * Returns the number of whole blocks up to the position of each digest, which never decreases; undefined if unknown.
 */
function placesOf(
  { marks, tokens, hashes, blockTokens }: ReadPrompt,
  known: (digest: string) => Tie | undefined,
  found: ReadonlyMap<string, number>,
): readonly (number | undefined)[] {
  const blocksOf = (count: number) => Math.min(hashes.length, Math.floor(Math.max(0, count) / blockTokens));
  let least = 0;
  return marks.map(({ digest }, index) => {
    const tie = known(digest);
    const isThere = tie?.isExact && tie.hash === (hashes[tie.tokens / blockTokens - 1] ?? NO_BLOCK);
    const isLast = index === marks.length - 1;
    const count = isLast ? tokens.length - OPENING_TOKENS : (found.get(digest) ?? (isThere ? tie.tokens : undefined));
    if (count === undefined) return undefined;
    least = Math.max(least, blocksOf(count));
    return least;
  });
}
