/** The lengths below it take one byte. */
const ONE_BYTE = 127;

/**
 * Returns a header block for these fields, whose names are in lower case; both texts are Latin-1. All fields are
 * literals without indexing (RFC 7541, section 6.2.2): blocks share no state, so that one may be encoded before its
 * connection is chosen, and constant parts can be stored and concatenated.
 */
export function headerBlock(fields: Iterable<readonly [name: string, value: string]>): Buffer {
  let text = "";
  for (const [name, value] of fields) text += `\0${lengthOf(name)}${name}${lengthOf(value)}${value}`;
  return Buffer.from(text, "latin1");
}

/** Returns the HPACK encoding of a text's length (RFC 7541, section 5.1), a character for each byte. */
function lengthOf({ length }: string): string {
  if (length < ONE_BYTE) return String.fromCharCode(length);
  let rest = length - ONE_BYTE;
  let written = String.fromCharCode(ONE_BYTE);
  for (; rest >= 0x80; rest >>>= 7) written += String.fromCharCode((rest & 0x7f) | 0x80);
  return written + String.fromCharCode(rest);
}
