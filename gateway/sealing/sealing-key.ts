import { createHmac, randomBytes } from "node:crypto";
import { readPrivateFile } from "../../deploy/runtime/files/private-file.ts";

export type SealingKey = {
  /**
   * 8 hex digits that distinguish keys and reveal nothing about their bytes. The id is in clear text in everything the
   * key has sealed, and may be logged.
   */
  readonly id: string;
  /** At least 32 random bytes. */
  readonly secret: Uint8Array;
};

/** Sealing keys in order: the first one seals, and all of them open. */
export type SealingKeys = readonly [SealingKey, ...SealingKey[]];

/** Unusable sealing keys. The message never quotes the file. */
export class SealingKeyError extends Error {
  override readonly name = "SealingKeyError";
}

export const KEY_ID_BYTES = 4;
const SECRET_BYTES = 32;
/** The least number of different bytes in a secret: 32 random bytes rarely have fewer than 20 different values. */
const MIN_DIFFERENT_BYTES = 16;
/** An item names the key that opens it, so this only bounds mistakes. */
const MAX_KEYS = 16;

export function newSealingKey(): SealingKey {
  return makeSealingKey(randomBytes(SECRET_BYTES));
}

/** Throws `SealingKeyError` if the secret is too short or certainly not random. */
export function makeSealingKey(secret: Buffer): SealingKey {
  if (secret.length < SECRET_BYTES) throw new SealingKeyError(`a sealing key has fewer than ${SECRET_BYTES} bytes`);
  if (new Set(secret).size < MIN_DIFFERENT_BYTES) throw new SealingKeyError("a sealing key is not random");
  const digest = createHmac("sha256", secret).update("sealing-key-id").digest();
  return { id: digest.subarray(0, KEY_ID_BYTES).toString("hex"), secret };
}

/**
 * Parses a file of sealing keys: lines of at least 64 hex digits, one key each, the sealing key first; or the raw bytes
 * of one key. Empty lines and lines that begin with `#` are ignored. Throws `SealingKeyError`.
 */
export function parseSealingKeys(bytes: Buffer): SealingKeys {
  // Random bytes are hardly ever all printable, and a text that a person made up is no key.
  if (!isText(bytes)) return [makeSealingKey(bytes)];
  const lines = bytes.toString("latin1").split(/\r?\n/);
  const [first, ...others] = lines.filter((line) => line !== "" && !line.startsWith("#")).map(keyOfLine);
  if (!first) throw new SealingKeyError("there is no sealing key in it");
  const keys: SealingKeys = [first, ...others];
  if (keys.length > MAX_KEYS) throw new SealingKeyError(`there are more than ${MAX_KEYS} sealing keys in it`);
  if (new Set(keys.map(({ id }) => id)).size < keys.length) throw new SealingKeyError("a sealing key is there twice");
  return keys;
}

/** Writes sealing keys as a file that `parseSealingKeys` reads. */
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

/** Reads the sealing keys in `file`. Throws `FileError`, and `SealingKeyError` for missing or invalid keys. */
export async function readSealingKeys(file: string): Promise<SealingKeys> {
  const bytes = await readPrivateFile(file);
  if (bytes === undefined) throw new SealingKeyError(`${file} is not there`);
  try {
    return parseSealingKeys(bytes);
  } catch (cause) {
    if (cause instanceof SealingKeyError) throw new SealingKeyError(`${file}: ${cause.message}`, { cause });
    throw cause;
  }
}
