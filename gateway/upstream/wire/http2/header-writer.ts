/** What numbers below it need no further byte for, in the lengths of texts. */
const ONE_BYTE = 127;

/**
 * Returns a block of headers for these fields, whose names are in lower case; both texts are of Latin-1. Each stands for
 * itself (RFC 7541, section 6.2.2): nothing is remembered between blocks, so that one may be made before it is known
 * which connection it is for, and parts of one that never change can be kept and joined.
 */
export function headerBlock(fields: Iterable<readonly [name: string, value: string]>): Buffer {
  let text = "";
  for (const [name, value] of fields) text += `\0${lengthOf(name)}${name}${lengthOf(value)}${value}`;
  return Buffer.from(text, "latin1");
}

/** Returns the length of a text as HPACK writes it (RFC 7541, section 5.1), a character for each byte. */
function lengthOf({ length }: string): string {
  if (length < ONE_BYTE) return String.fromCharCode(length);
  let rest = length - ONE_BYTE;
  let written = String.fromCharCode(ONE_BYTE);
  for (; rest >= 0x80; rest >>>= 7) written += String.fromCharCode((rest & 0x7f) | 0x80);
  return written + String.fromCharCode(rest);
}
