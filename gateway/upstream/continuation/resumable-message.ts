import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { type Continuation, GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";

/** The tag of the field `resumable` of a GenerateRequest: number 14, a varint. */
const RESUMABLE_TAG = 14 << 3;
/** The size of that field in bytes: one each for tag and value. */
const RESUMABLE_BYTES = 2;

/**
 * The size of the largest message whose buffer is kept for the next one, in bytes. Growing a new buffer costs as much
 * as encoding, and each message is copied out of it; concurrently translated messages are no larger.
 */
const KEPT_BYTES = 256 * 1024;

/** The buffer in which messages are encoded, one at a time. */
let writer = new BinaryWriter();

/** The request to the engine beside the answer: nothing, the tokens of it, or the continuation of one. */
export type Resumption = "none" | "resumable" | Continuation;

/**
 * Encodes a request, whose field `resumable` comes last and is true. `messageFor` decides for each call whether it is
 * sent; the message itself may have tens of megabytes, and is not written or copied for that.
 */
export function encodeResumable(request: GenerateRequest): Uint8Array {
  const used = writer;
  // A failed encoding must leave nothing in the next one.
  writer = new BinaryWriter();
  const bytes = GenerateRequest.encode(request, used).uint32(RESUMABLE_TAG).bool(true).finish();
  if (bytes.byteLength <= KEPT_BYTES) writer = used;
  return bytes;
}

/**
 * Returns the message of one call, from the result of `encodeResumable`. Concatenated messages of the contract merge,
 * so that a continuation does not decode the request again.
 */
export function messageFor(encoded: Uint8Array, resumption: Resumption): Uint8Array {
  if (resumption === "resumable") return encoded;
  if (resumption === "none") return encoded.subarray(0, encoded.byteLength - RESUMABLE_BYTES);
  return Buffer.concat([
    encoded,
    GenerateRequest.encode(GenerateRequest.fromPartial({ continuation: resumption })).finish(),
  ]);
}
