import { randomInt } from "node:crypto";

/** The hash before the first block of a prompt. */
export const NO_BLOCK = 0;

/** Two secret numbers, so that callers cannot search for prompts with colliding hashes. */
const SEEDS = [randomInt(2 ** 32), randomInt(2 ** 32)] as const;

/**
 * Returns the hash of a block from the hash of the previous block, the tokens from `from` up to `to`, which are its own
 * and those behind it that its content depends on, and other inputs: 53 bits that identify everything up to there. It is not cryptographic: a prompt of 100,000 tokens is
 * hashed between two steps, and a collision misroutes one request.
 */
export function chainHash(before: number, tokens: ArrayLike<number>, from: number, to: number, extra = ""): number {
  let first = SEEDS[0] ^ (before % 2 ** 32);
  let second = SEEDS[1] ^ Math.floor(before / 2 ** 32);
  const mix = (value: number) => {
    first = Math.imul(first ^ value, 0x9e3779b1);
    first ^= first >>> 15;
    second = Math.imul(second ^ value, 0x85ebca6b);
    second ^= second >>> 13;
  };
  for (let at = 0; at < extra.length; at += 1) mix(~extra.charCodeAt(at));
  for (let at = from; at < to; at += 1) mix(tokens[at] ?? 0);
  mix(first ^ second);
  return (first >>> 0) + (second & 0x1f_ffff) * 2 ** 32;
}

/**
 * Returns the hashes of all whole blocks of a prompt, of those only that `lookahead` tokens follow. `extra` is the other
 * input of the first block's hash.
 */
export function chainHashes(
  tokens: ArrayLike<number>,
  blockTokens: number,
  extra: string,
  lookahead = 0,
): readonly number[] {
  const hashes: number[] = [];
  let hash = NO_BLOCK;
  for (let end = blockTokens; end + lookahead <= tokens.length; end += blockTokens) {
    hash = chainHash(hash, tokens, end - blockTokens, end + lookahead, end === blockTokens ? extra : "");
    hashes.push(hash);
  }
  return hashes;
}
