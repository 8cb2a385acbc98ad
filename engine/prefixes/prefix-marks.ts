import type { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../errors.ts";

/** The bytes of a digest. */
const DIGEST_BYTES = 16;
/** The most digests that come with a request. */
const MAX_DIGESTS = 64;
/** The digests at the beginning of a prompt that come with a request which has more of them than may come. */
const HEAD_DIGESTS = 2;

/** A place in a prompt that a digest of its request names. */
export type PrefixMark = {
  /** The digest of everything up to the place: 16 bytes as a string of as many units. */
  readonly digest: string;
  /** The number of messages up to the place, together with the tools. */
  readonly messages: number;
};

/** What names the prefixes of a request. */
type Marked = Pick<GenerateRequest, "prefixDigests" | "messages">;

/**
 * Returns the places that the digests of a request name, from the first to the last; none where it has none. Throws
 * `EngineError` INVALID_REQUEST for another number of digests than the messages have places.
 */
export function prefixMarks({ prefixDigests, messages }: Marked): readonly PrefixMark[] {
  if (prefixDigests.length === 0) return [];
  const spoken = messages.findIndex(({ role }) => role !== Role.SYSTEM);
  const head = spoken < 0 ? messages.length : spoken;
  const places = 1 + messages.length - head;
  const count = Math.min(places, MAX_DIGESTS);
  if (prefixDigests.length !== count * DIGEST_BYTES) {
    const field = "prefix_digests";
    throw new EngineError("INVALID_REQUEST", `${field}: of this prompt they are ${count} of 16 bytes.`, { field });
  }
  const digests = Buffer.from(prefixDigests.buffer, prefixDigests.byteOffset, prefixDigests.length);
  return Array.from({ length: count }, (_, index) => ({
    digest: digests.toString("latin1", index * DIGEST_BYTES, (index + 1) * DIGEST_BYTES),
    messages: head + (index < HEAD_DIGESTS ? index : places - count + index),
  }));
}

/** Returns the bytes of digests, one after the other. */
export function digestBytes(digests: readonly string[]): Buffer {
  return Buffer.from(digests.join(""), "latin1");
}
