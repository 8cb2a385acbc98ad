import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { CountTokensRequest, GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { Message, Part, ToolResultPart } from "../../proto/gen/svc/inference/v1/messages.ts";

/**
 * The bytes of a message from which on its list is read item by item: the smallest items that fit into less are read in
 * a few milliseconds.
 */
export const MANY_BYTES = 32_768;

/** A message of the contract with a list that callers make as long as they like. */
type Listing<Whole, Item> = {
  /** Reads the whole message. */
  readonly decode: (bytes: Uint8Array) => Whole;
  /** The number of the field of the list. */
  readonly field: number;
  /** Reads an item of `length` bytes where the reader stands. */
  readonly decodeSmall: (reader: BinaryReader, length: number) => Item;
  /** Reads an item of at least `MANY_BYTES`. */
  readonly decodeLarge: (bytes: Uint8Array, mayGoOn: () => boolean) => Generator<void, Item>;
  /** Puts the list into the message that was read without it. */
  readonly join: (whole: Whole, items: readonly Item[]) => Whole;
};

/** The field of a part in which the result of a tool stands, the only kind that has parts of its own. */
const RESULT_FIELD = 4;

const RESULT: Listing<ToolResultPart, Part> = {
  decode: ToolResultPart.decode,
  field: 3,
  decodeSmall: Part.decode,
  decodeLarge: decodePart,
  join: (result, content) => ({ ...result, content }),
};

const MESSAGE: Listing<Message, Part> = {
  decode: Message.decode,
  field: 2,
  decodeSmall: Part.decode,
  decodeLarge: decodePart,
  join: (message, parts) => ({ ...message, parts }),
};

const MESSAGES = {
  decodeSmall: Message.decode,
  decodeLarge: (bytes: Uint8Array, mayGoOn: () => boolean) => decodeListing(MESSAGE, bytes, mayGoOn),
};

const GENERATE: Listing<GenerateRequest, Message> = {
  ...MESSAGES,
  decode: GenerateRequest.decode,
  field: 3,
  join: (request, messages) => ({ ...request, messages }),
};

const COUNT_TOKENS: Listing<CountTokensRequest, Message> = {
  ...MESSAGES,
  decode: CountTokensRequest.decode,
  field: 2,
  join: (request, messages) => ({ ...request, messages }),
};

/**
 * Reads the request of a generation. Yields whenever `mayGoOn`, which is asked after each message and part, returns
 * false, so that others may have a turn. Throws what the generated code throws for bytes that are no such message.
 */
export function decodeGenerate(bytes: Uint8Array, mayGoOn: () => boolean): Generator<void, GenerateRequest> {
  return decodeListing(GENERATE, bytes, mayGoOn);
}

/** Reads the request of a token count, as `decodeGenerate` does. */
export function decodeCountTokens(bytes: Uint8Array, mayGoOn: () => boolean): Generator<void, CountTokensRequest> {
  return decodeListing(COUNT_TOKENS, bytes, mayGoOn);
}

function* decodeListing<Whole, Item>(
  { decode, field, decodeSmall, decodeLarge, join }: Listing<Whole, Item>,
  bytes: Uint8Array,
  mayGoOn: () => boolean,
): Generator<void, Whole> {
  if (bytes.length < MANY_BYTES) return decode(bytes);
  const items: Item[] = [];
  const others: Uint8Array[] = [];
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const from = reader.pos;
    const [number, type] = reader.tag();
    if (number !== field || type !== WireType.LengthDelimited) {
      reader.skip(type, number);
      others.push(bytes.subarray(from, reader.pos));
    } else {
      const length = reader.uint32();
      if (length < MANY_BYTES) items.push(decodeSmall(reader, length));
      else {
        const item = bytes.subarray(reader.pos, reader.pos + length);
        if (item.length < length) throw new RangeError("The list of a message breaks off.");
        items.push(yield* decodeLarge(item, mayGoOn));
        reader.pos += length;
      }
    }
    if (!mayGoOn()) yield;
  }
  return join(decode(Buffer.concat(others)), items);
}

function* decodePart(bytes: Uint8Array, mayGoOn: () => boolean): Generator<void, Part> {
  const reader = new BinaryReader(bytes);
  const others: Uint8Array[] = [];
  const results: Uint8Array[] = [];
  while (reader.pos < reader.len) {
    const from = reader.pos;
    const [number, type] = reader.tag();
    if (number === RESULT_FIELD && type === WireType.LengthDelimited) results.push(reader.bytes());
    else {
      reader.skip(type, number);
      others.push(bytes.subarray(from, reader.pos));
    }
  }
  const part = Part.decode(Buffer.concat(others));
  const [result, ...more] = results;
  // Of several kinds the last one counts, which nobody who means well sends.
  if (!result || more.length > 0 || part.kind) return Part.decode(bytes);
  const value = yield* decodeListing(RESULT, result, mayGoOn);
  return { ...part, kind: { $case: "toolResult", value } };
}
