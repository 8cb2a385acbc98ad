/** The most tokens that come over and over. */
const MAX_PERIOD = 48;
/** The tokens at the end of an answer that are to be the same over and over, at least. */
const MIN_TOKENS = 16;
/** The number of times that they are to come. */
const MIN_TIMES = 4;

/**
 * Returns the tokens that come over and over at the end of `tokens`, four times at least and for 16 tokens: as few of
 * them as there can be, up to 48. There are none where nothing does.
 */
export function repeatedTokens<Token>(tokens: readonly Token[]): readonly Token[] {
  for (let period = 1; period <= MAX_PERIOD; period += 1) {
    const wanted = Math.max(MIN_TOKENS, period * MIN_TIMES);
    if (wanted > tokens.length) break;
    if (repeats(tokens, tokens.length - wanted, period)) return tokens.slice(-period);
  }
  return [];
}

function repeats<Token>(tokens: readonly Token[], from: number, period: number): boolean {
  for (let at = from + period; at < tokens.length; at += 1) if (tokens[at] !== tokens[at - period]) return false;
  return true;
}
