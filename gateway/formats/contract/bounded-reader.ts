import { BinaryReader } from "@bufbuild/protobuf/wire";
import { ApiError } from "../../errors.ts";

/**
 * The most tags and lengths that a message may hold: two bytes can become an object of many times their size. A text
 * part takes about six of them, so the limit allows some 60,000 parts.
 */
const MAX_READS = 400_000;

/**
 * Reads a message of the contract from an untrusted sender: a message of too many pieces costs no more than finding
 * that out.
 */
class BoundedReader extends BinaryReader {
  constructor(bytes: Uint8Array) {
    super(bytes);
    const read = this.uint32;
    let reads = 0;
    this.uint32 = () => {
      reads += 1;
      if (reads > MAX_READS) throw tooManyPieces();
      return read.call(this);
    };
  }
}

function tooManyPieces(): ApiError {
  return new ApiError("bad_request", "The request is made of too many pieces.", { detail: "message_pieces" });
}

/** Decodes a message of the contract. Throws `ApiError` for invalid bytes, and for a message of too many pieces. */
export function decodeBounded<Message>(bytes: Uint8Array, decode: (reader: BinaryReader) => Message): Message {
  try {
    return decode(new BoundedReader(bytes));
  } catch (error) {
    if (error instanceof ApiError) throw error;
    throw new ApiError("bad_request", "The request cannot be read.", { detail: "message_unreadable", cause: error });
  }
}
