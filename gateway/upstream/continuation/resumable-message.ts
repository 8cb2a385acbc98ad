import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { type Continuation, GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";

/** The tag of the field `resumable` of a GenerateRequest: number 14, a varint. */
const RESUMABLE_TAG = 14 << 3;
/** The size of that field in bytes: its tag and its value have one each. */
const RESUMABLE_BYTES = 2;

/**
 * The size of the largest message whose room is kept for the next one, in bytes. Growing into new room costs as much as
 * encoding, and each message is copied out of it; what is translated beside others is no larger.
 */
const KEPT_BYTES = 256 * 1024;

/** Has the room in which messages are encoded, one at a time. */
let writer = new BinaryWriter();

/** What an engine is asked for beside the answer: nothing, the tokens of it, or to go on with one. */
export type Resumption = "none" | "resumable" | Continuation;

/**
 * Encodes a request, whose field `resumable` comes last and is true. Whether it is sent is decided for each call, by
 * `messageFor`; the message itself may have tens of megabytes, and is never written or copied for that.
 */
export function encodeResumable(request: GenerateRequest): Uint8Array {
  const used = writer;
  // Of one that could not be encoded nothing may be left in the next one.
  writer = new BinaryWriter();
  const bytes = GenerateRequest.encode(request, used).uint32(RESUMABLE_TAG).bool(true).finish();
  if (bytes.byteLength <= KEPT_BYTES) writer = used;
  return bytes;
}

/**
 * Returns the message of one call, out of what `encodeResumable` gave. Messages of the contract merge where one is
 * written behind the other, so that a continuation needs no second look at the request.
 */
export function messageFor(encoded: Uint8Array, resumption: Resumption): Uint8Array {
  if (resumption === "resumable") return encoded;
  if (resumption === "none") return encoded.subarray(0, encoded.byteLength - RESUMABLE_BYTES);
  return Buffer.concat([
    encoded,
    GenerateRequest.encode(GenerateRequest.fromPartial({ continuation: resumption })).finish(),
  ]);
}
