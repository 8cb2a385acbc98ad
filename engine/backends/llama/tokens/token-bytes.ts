/**
 * The byte behind each character of a byte-level vocabulary: printable bytes stand for themselves, the others for
 * characters from U+0100 on (the scheme of GPT-2).
 */
const BYTE_OF = byteLevelAlphabet();

/**
 * The bytes of a token: of its text where that is whole; else, in a byte-level vocabulary, of its spelling there.
 * Empty when they cannot be known.
 */
export function tokenBytes(text: string, spelling: string | undefined): Buffer {
  if (!text.includes("\uFFFD")) return Buffer.from(text, "utf8");
  const bytes = [...(spelling ?? "")].map((character) => BYTE_OF.get(character));
  return bytes.every((byte) => byte !== undefined) ? Buffer.from(bytes) : Buffer.alloc(0);
}

function byteLevelAlphabet(): ReadonlyMap<string, number> {
  const alphabet = new Map<string, number>();
  let next = 0x100;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    alphabet.set(String.fromCharCode(printable ? byte : next), byte);
    if (!printable) next += 1;
  }
  return alphabet;
}
