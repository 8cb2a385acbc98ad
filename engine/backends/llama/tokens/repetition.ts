const MAX_PERIOD = 48;
/** The least number of repeated tokens at the end of an answer. */
const MIN_TOKENS = 16;
const MIN_TIMES = 4;

/**
 * Returns the sequence that repeats at the end of `tokens`, at least four times and for 16 tokens: the shortest one, up
 * to 48 tokens. Empty if there is none.
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
