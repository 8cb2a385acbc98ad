/** The fields of an HTTP/2 message, by name in lower case. The values of a repeated field are joined by commas. */
export type Headers = Readonly<Record<string, string>>;

/** The static table of names and values: RFC 7541, appendix A. */
const STATIC_TABLE: readonly Field[] = [
  ...[":authority", ":method=GET", ":method=POST", ":path=/", ":path=/index.html", ":scheme=http", ":scheme=https"],
  ...["200", "204", "206", "304", "400", "404", "500"].map((status) => `:status=${status}`),
  ...["accept-charset", "accept-encoding=gzip, deflate", "accept-language", "accept-ranges", "accept"],
  ...["access-control-allow-origin", "age", "allow", "authorization", "cache-control", "content-disposition"],
  ...["content-encoding", "content-language", "content-length", "content-location", "content-range", "content-type"],
  ...["cookie", "date", "etag", "expect", "expires", "from", "host", "if-match", "if-modified-since", "if-none-match"],
  ...["if-range", "if-unmodified-since", "last-modified", "link", "location", "max-forwards", "proxy-authenticate"],
  ...["proxy-authorization", "range", "referer", "refresh", "retry-after", "server", "set-cookie"],
  ...["strict-transport-security", "transfer-encoding", "user-agent", "vary", "via", "www-authenticate"],
].map((field) => {
  const equals = field.indexOf("=");
  return equals < 0 ? [field, ""] : [field.slice(0, equals), field.slice(equals + 1)];
});

const TABLE_BYTES = 4_096;
const FIELD_BYTES = 32;
/** The most bits of a number after those of its first byte. */
const MAX_NUMBER_BITS = 28;

/** The characters of names and values (RFC 9113, section 8.2.1). */
const NAME = /^:?[!#$%&'*+\-.^_`|~0-9a-z]+$/;
const VALUE = /^[\t -~\x80-\xff]*$/;

type Field = readonly [name: string, value: string];

type Block = { readonly bytes: Buffer; at: number; readonly to: number };

/** Thrown for a malformed block; it never leaves this file. */
class Nonsense extends Error {}

/** Returns whether these may occur in an HTTP message: a stream with others is malformed. */
export function isWellFormed(headers: Headers): boolean {
  for (const name in headers) if (!NAME.test(name) || !VALUE.test(headers[name] ?? "")) return false;
  return true;
}

/**
 * Reads header blocks compressed by HPACK (RFC 7541): each may refer to fields of earlier ones on the connection, so
 * that all of them must be read, in order.
 */
export class HeaderReader {
  readonly #maxListBytes: number;
  readonly #table: Field[] = [];
  #tableBytes = 0;
  #maxTableBytes = TABLE_BYTES;

  constructor(maxListBytes: number) {
    this.#maxListBytes = maxListBytes;
  }

  /** Returns the fields of a block; undefined for a bad one, behind which no block can be read. */
  read(bytes: Buffer, from: number, to: number): Headers | undefined {
    const headers: Record<string, string> = Object.create(null);
    const block: Block = { bytes, at: from, to };
    let listBytes = 0;
    try {
      while (block.at < to) {
        const field = this.#next(block);
        if (!field) continue;
        const [name, value] = field;
        listBytes += sizeOf(field);
        if (listBytes > this.#maxListBytes) return undefined;
        const before = headers[name];
        headers[name] = before === undefined ? value : `${before}, ${value}`;
      }
      return headers;
    } catch (error) {
      if (error instanceof Nonsense) return undefined;
      throw error;
    }
  }

  #next(block: Block): Field | undefined {
    const first = block.bytes[block.at] ?? 0;
    if (first & 0x80) return this.#entry(numberOf(block, 7));
    if (first & 0x40) {
      const field = this.#literal(block, 6);
      this.#add(field);
      return field;
    }
    if (!(first & 0x20)) return this.#literal(block, 4);
    const size = numberOf(block, 5);
    if (size > TABLE_BYTES) throw new Nonsense();
    this.#maxTableBytes = size;
    this.#evict();
    return undefined;
  }

  #literal(block: Block, bits: number): Field {
    const index = numberOf(block, bits);
    const name = index === 0 ? textOf(block) : this.#entry(index)[0];
    return [name, textOf(block)];
  }

  #entry(index: number): Field {
    const field = STATIC_TABLE[index - 1] ?? this.#table[index - 1 - STATIC_TABLE.length];
    if (!field) throw new Nonsense();
    return field;
  }

  #add(field: Field): void {
    this.#table.unshift(field);
    this.#tableBytes += sizeOf(field);
    this.#evict();
  }

  #evict(): void {
    while (this.#tableBytes > this.#maxTableBytes) {
      const oldest = this.#table.pop();
      if (oldest) this.#tableBytes -= sizeOf(oldest);
    }
  }
}

function sizeOf([name, value]: Field): number {
  return name.length + value.length + FIELD_BYTES;
}

/** Reads a number that begins in the last `bits` bits of the next byte (RFC 7541, section 5.1). */
function numberOf(block: Block, bits: number): number {
  const mask = 2 ** bits - 1;
  const first = byteOf(block) & mask;
  if (first < mask) return first;
  let value = first;
  for (let shift = 0; shift < MAX_NUMBER_BITS; shift += 7) {
    const byte = byteOf(block);
    value += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) return value;
  }
  throw new Nonsense();
}

/** Reads a length-prefixed text, as Latin-1. */
function textOf(block: Block): string {
  const isHuffman = ((block.bytes[block.at] ?? 0) & 0x80) !== 0;
  const length = numberOf(block, 7);
  const start = block.at;
  const end = start + length;
  if (end > block.to) throw new Nonsense();
  block.at = end;
  if (!isHuffman) return block.bytes.toString("latin1", start, end);
  const text = huffmanText(block.bytes, start, end);
  if (text === undefined) throw new Nonsense();
  return text;
}

function byteOf(block: Block): number {
  if (block.at >= block.to) throw new Nonsense();
  const byte = block.bytes[block.at] ?? 0;
  block.at += 1;
  return byte;
}

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

/** Decodes Huffman codes (RFC 7541, section 5.2) to Latin-1; undefined for malformed ones. */
function huffmanText(bytes: Buffer, from: number, to: number): string | undefined {
  const symbols: number[] = [];
  let code = 0;
  let length = 0;
  for (let at = from; at < to; at += 1) {
    const byte = bytes[at] ?? 0;
    for (let bit = 7; bit >= 0; bit -= 1) {
      code = code * 2 + ((byte >> bit) & 1);
      length += 1;
      // There are codes for each length up to the longest.
      const { firstCode, firstAt, count } = LENGTHS[length] as Length;
      const symbol = code - firstCode < count ? SYMBOLS[firstAt + code - firstCode]?.symbol : undefined;
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
