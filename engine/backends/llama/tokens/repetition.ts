/** The most tokens that come over and over. */
const MAX_PERIOD = 16;
/** The tokens at the end of an answer that are to be the same over and over, at least. */
const MIN_TOKENS = 16;
/** The number of times that they are to come. */
const MIN_TIMES = 4;

/**
 * Returns whether the tokens end in the same few ones over and over, four times at least and for 16 tokens, and none of
 * them is a `boundary`.
 */
export function endsInRepetition<Token>(tokens: readonly Token[], boundary: ReadonlySet<Token>): boolean {
  for (let period = 1; period <= MAX_PERIOD; period += 1) {
    const wanted = Math.max(MIN_TOKENS, period * MIN_TIMES);
    if (wanted > tokens.length) return false;
    if (repeats(tokens.slice(-wanted), period)) return !tokens.slice(-period).some((token) => boundary.has(token));
  }
  return false;
}

function repeats<Token>(tokens: readonly Token[], period: number): boolean {
  return tokens.every((token, at) => at < period || token === tokens[at - period]);
}
