/** The length of the code of each byte, in bits, by RFC 7541, appendix B; the last is that of the end. In base 36. */
const CODE_LENGTHS = [
  "dnsssssssoussussssssssusssssssss6aacd68baa8b8666555666666678f6ca",
  "d67777777777777777777777878djde6f56565666577666567655677777fbeds",
  "kmkkmmmnmnnnnnonoomnonnnnlmnmnnomlkmmnnlnmmolmnnllmlnmnnkmmmnmmn",
  "qqkjmnmpqqqrrqopjlqrrqrollqqsrrrkoklmllnmmppooqnqrqqrrrrrsrrrrrq",
  "u",
].join("");

const LONGEST_CODE = 30;
/** The end symbol of a text, of which only the first bits occur, as padding of the last byte. */
const END = 256;

/** The codes of one length: they are consecutive, and so are their bytes in `SYMBOLS`. */
type Length = { readonly firstCode: number; readonly firstAt: number; readonly count: number };

const SYMBOLS = [...CODE_LENGTHS]
  .map((digit, symbol) => ({ symbol, length: Number.parseInt(digit, 36) }))
  .sort((one, other) => one.length - other.length || one.symbol - other.symbol);

const LENGTHS = lengthsOf();

function lengthsOf(): readonly Length[] {
  const lengths: Length[] = [];
  let code = 0;
  let at = 0;
  for (let length = 0; length <= LONGEST_CODE; length += 1) {
    const count = SYMBOLS.filter((symbol) => symbol.length === length).length;
    lengths.push({ firstCode: code, firstAt: at, count });
    at += count;
    code = (code + count) * 2;
  }
  return lengths;
}

/**
 * Returns the text, as Latin-1, of the Huffman codes from `from` to before `to` (RFC 7541, section 5.2); undefined for
 * malformed codes.
 */
export function huffmanText(bytes: Buffer, from: number, to: number): string | undefined {
  const symbols: number[] = [];
  let code = 0;
  let length = 0;
  for (let at = from; at < to; at += 1) {
    const byte = bytes[at] ?? 0;
    for (let bit = 7; bit >= 0; bit -= 1) {
      code = code * 2 + ((byte >> bit) & 1);
      length += 1;
      const symbol = symbolOf(code, length);
      if (symbol === undefined && length < LONGEST_CODE) continue;
      if (symbol === undefined || symbol === END) return undefined;
      symbols.push(symbol);
      code = 0;
      length = 0;
    }
  }
  // The padding of the last byte is ones, and less than a whole byte.
  return length < 8 && code === 2 ** length - 1 ? Buffer.from(symbols).toString("latin1") : undefined;
}

function symbolOf(code: number, length: number): number | undefined {
  const { firstCode, firstAt, count } = LENGTHS[length] as Length; // there is one for each length up to the longest
  return code - firstCode < count ? SYMBOLS[firstAt + code - firstCode]?.symbol : undefined;
}
