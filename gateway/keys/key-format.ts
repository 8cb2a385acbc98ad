import { randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";

/*
 * The form of a key: `svc_live_<id12>_<secret43>_<crc6>`, all parts base62. Secret scanners find the prefix, a double
 * click selects the whole key because of the underscores, and the checksum distinguishes a typo from an unknown key
 * without a look-up.
 */

/** The form of a key as a regular expression without anchors, for secret scanners. */
export const KEY_PATTERN = "svc_live_([0-9A-Za-z]{12})_([0-9A-Za-z]{43})_([0-9A-Za-z]{6})";

/** Longer keys, in characters, are refused unread. */
export const MAX_KEY_LENGTH = 128;

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
export const ID_LENGTH = 12;
const SECRET_LENGTH = 43;
const CHECK_LENGTH = 6;
const WHOLE_KEY = new RegExp(`^${KEY_PATTERN}$`);

function base62(value: bigint, length: number): string {
  let rest = value;
  let text = "";
  for (let digit = 0; digit < length; digit += 1) {
    text = ALPHABET.charAt(Number(rest % 62n)) + text;
    rest /= 62n;
  }
  return text;
}

function randomBase62(bytes: number, length: number): string {
  return base62(BigInt(`0x${randomBytes(bytes).toString("hex")}`), length);
}

function checkSum(text: string): string {
  return base62(BigInt(crc32(text)), CHECK_LENGTH);
}

/** Makes a new public id: 71 bits, which never meet those of another key. 16 bytes leave no measurable bias. */
export function generateKeyId(): string {
  return randomBase62(16, ID_LENGTH);
}

export function isKeyId(text: string): boolean {
  return /^[0-9A-Za-z]{12}$/.test(text);
}

/** Makes the text of a key with 256 random bits for the given id. It is shown once to its holder and never stored. */
export function generateKey(id: string): string {
  const body = `svc_live_${id}_${randomBase62(32, SECRET_LENGTH)}`;
  return `${body}_${checkSum(body)}`;
}

/** Returns the id in a key; undefined if its form or its checksum is wrong. It takes text of any size and content. */
export function idOfKey(text: string): string | undefined {
  const match = text.length > MAX_KEY_LENGTH ? undefined : WHOLE_KEY.exec(text);
  return match && checkSum(text.slice(0, -CHECK_LENGTH - 1)) === match[3] ? match[1] : undefined;
}
