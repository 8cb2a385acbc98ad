import { createHmac, randomBytes } from "node:crypto";

/** A secret by which reasoning is sealed. */
export type SealingKey = {
  /**
   * The name of the key: 8 hex digits that tell one from another and nothing about its bytes. It stands in the clear in
   * all that the key has sealed, and is fit for logs.
   */
  readonly id: string;
  /** The secret itself, at least 32 random bytes. */
  readonly secret: Uint8Array;
};

/** Sealing keys in their order: the first one seals, and all of them open. */
export type SealingKeys = readonly [SealingKey, ...SealingKey[]];

/** The error for sealing keys that cannot be used. Its message never quotes what was read. */
export class SealingKeyError extends Error {
  override readonly name = "SealingKeyError";
}

/** The bytes of the id of a sealing key. */
export const KEY_ID_BYTES = 4;
const SECRET_BYTES = 32;
/** The different bytes that a secret has at least: 32 random ones are hardly ever fewer than 20 different ones. */
const MIN_DIFFERENT_BYTES = 16;
/** The most keys of a file: an item is opened by the one that it names, so that this only bounds mistakes. */
const MAX_KEYS = 16;

/** Makes a sealing key of random bytes. */
export function newSealingKey(): SealingKey {
  return makeSealingKey(randomBytes(SECRET_BYTES));
}

/** Makes a sealing key of a secret. Throws `SealingKeyError` for one that is too short or surely not random. */
export function makeSealingKey(secret: Buffer): SealingKey {
  if (secret.length < SECRET_BYTES) throw new SealingKeyError(`a sealing key has fewer than ${SECRET_BYTES} bytes`);
  if (new Set(secret).size < MIN_DIFFERENT_BYTES) throw new SealingKeyError("a sealing key is not random");
  const digest = createHmac("sha256", secret).update("sealing-key-id").digest();
  return { id: digest.subarray(0, KEY_ID_BYTES).toString("hex"), secret };
}

/**
 * Parses what a file of sealing keys holds: lines of hex digits, at least 64 each and one key each, the one that seals
 * first; or the bytes of one key as they are. Empty lines and lines that begin with `#` are left out. Throws
 * `SealingKeyError`.
 */
export function parseSealingKeys(bytes: Buffer): SealingKeys {
  // Random bytes are hardly ever all of them printable, and what somebody has thought up is no key.
  if (!isText(bytes)) return [makeSealingKey(bytes)];
  const lines = bytes.toString("latin1").split(/\r?\n/);
  const [first, ...others] = lines.filter((line) => line !== "" && !line.startsWith("#")).map(keyOfLine);
  if (!first) throw new SealingKeyError("there is no sealing key in it");
  const keys: SealingKeys = [first, ...others];
  if (keys.length > MAX_KEYS) throw new SealingKeyError(`there are more than ${MAX_KEYS} sealing keys in it`);
  if (new Set(keys.map(({ id }) => id)).size < keys.length) throw new SealingKeyError("a sealing key is there twice");
  return keys;
}

/** Writes sealing keys as the text of a file that `parseSealingKeys` reads. */
export function sealingKeysText(keys: SealingKeys): string {
  const lines = keys.map(({ id, secret }) => `# ${id}\n${Buffer.from(secret).toString("hex")}\n`);
  return `# Sealing keys, one a line: the first one seals, all of them open. Change them on all gateways.\n${lines.join("")}`;
}

function isText(bytes: Buffer): boolean {
  return bytes.every((byte) => (byte >= 0x20 && byte < 0x7f) || byte === 0x0a || byte === 0x0d);
}

function keyOfLine(line: string): SealingKey {
  if (!/^(?:[0-9a-f]{2})+$/i.test(line))
    throw new SealingKeyError("a line of it is not hex digits; random bytes or lines of 64 hex digits are keys");
  return makeSealingKey(Buffer.from(line, "hex"));
}
