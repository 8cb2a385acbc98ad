import { huffmanText } from "./huffman.ts";

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

/** The default size of a connection's dynamic table, in bytes. */
const TABLE_BYTES = 4_096;
/** The overhead of each field in the table's size, in bytes. */
const FIELD_BYTES = 32;
/** The most bits of a number after those of its first byte. */
const MAX_NUMBER_BITS = 28;

/** The characters of names and values (RFC 9113, section 8.2.1). */
const NAME = /^:?[!#$%&'*+\-.^_`|~0-9a-z]+$/;
const VALUE = /^[\t -~\x80-\xff]*$/;

type Field = readonly [name: string, value: string];

/** The unread bytes of a header block. */
type Block = { readonly bytes: Buffer; at: number; readonly to: number };

/** Thrown for a malformed block; it never leaves this file. */
class Nonsense extends Error {}

/** Returns whether these may occur in an HTTP message: a stream with others is malformed. */
export function isWellFormed(headers: Headers): boolean {
  return Object.entries(headers).every(([name, value]) => NAME.test(name) && VALUE.test(value));
}

/**
 * Reads header blocks compressed by HPACK (RFC 7541): each may refer to fields of earlier ones on the connection, so
 * that all of them must be read, in order.
 */
export class HeaderReader {
  readonly #maxListBytes: number;
  /** The dynamic table, the newest field first. */
  readonly #table: Field[] = [];
  #tableBytes = 0;
  #maxTableBytes = TABLE_BYTES;

  /** Accepts blocks with at most `maxListBytes` bytes of names and values, counted as HTTP/2 does. */
  constructor(maxListBytes: number) {
    this.#maxListBytes = maxListBytes;
  }

  /**
   * Returns the fields of a block, the bytes from `from` to before `to`; undefined for one that is malformed or too
   * large. No later block can be read then.
   */
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

  /** Reads the next representation: a field, or only a new size of the table. */
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

  /** Reads a field with a literal value, and a literal name unless it is indexed. */
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

  /** Evicts the oldest fields until the others fit. */
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
