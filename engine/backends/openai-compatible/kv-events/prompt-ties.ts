import type { PrefixMark } from "../../../prefixes/prefix-marks.ts";
import type { Tie } from "./engine-blocks.ts";
import { NO_BLOCK } from "./token-chain.ts";

/**
 * The most tokens that a template writes behind the last message to begin the answer. What they take from the place of
 * the last digest is told as held behind it.
 */
const OPENING_TOKENS = 32;

/** A prompt as the engine reads it, and the places that digests name in it. */
export type ReadPrompt = {
  /** The id of the model. */
  readonly model: string;
  /** The places, from the first to the last. */
  readonly marks: readonly PrefixMark[];
  /** The tokens of the prompt. */
  readonly tokens: ArrayLike<number>;
  /** The hashes of its whole blocks. */
  readonly hashes: readonly number[];
  /** The tokens of a block. */
  readonly blockTokens: number;
};

/**
 * Ties the digests of a prompt to its blocks. The last one stands at the end of the prompt; the others are where they
 * were found before, unless the prompt has other tokens there. One that was not found yet stands somewhere between its
 * neighbours: it is told as held where all up to the next known place is, with the tokens of the known place before it,
 * so that nothing is told which is not so. `known` returns what a digest was tied to before, and `found` where one was
 * found since, as the number of tokens up to there.
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

/** Returns the number of whole blocks up to the place of each digest, which never decrease; undefined where unknown. */
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
