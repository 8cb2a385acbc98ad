import type { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../errors.ts";

const DIGEST_BYTES = 16;
const MAX_DIGESTS = 64;
/** Of more than `MAX_DIGESTS` positions, this many are the first ones and the rest the last ones. */
const HEAD_DIGESTS = 2;

/** A position in a prompt that a digest of its request names. */
export type PrefixMark = {
  /** The digest of everything up to the position: 16 bytes as a latin1 string. */
  readonly digest: string;
  /** The number of messages up to the position; tools count with the first. */
  readonly messages: number;
};

type Marked = Pick<GenerateRequest, "prefixDigests" | "messages">;

/**
 * Returns the positions that the digests of a request name, in order; empty without digests. Throws `EngineError`
 * INVALID_REQUEST if the number of digests does not match the messages.
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

export function digestBytes(digests: readonly string[]): Buffer {
  return Buffer.from(digests.join(""), "latin1");
}
