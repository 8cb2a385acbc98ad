import { crc32 } from "node:zlib";

/*
 * The form of a key: `svc_live_<id12>_<secret43>_<crc6>`, all parts base62. Secret scanners find the prefix, a double
 * click selects the whole key because of the underscores, and the checksum distinguishes a typo from an unknown key
 * without a look-up.
 */

/**
 * The kind of deployment that accepts a key: a test key is unknown to a live deployment, and a live key to a test
 * deployment.
 */
export type KeyEnv = "live" | "test";

export const KEY_ENVS = ["live", "test"] as const satisfies readonly KeyEnv[];

/** The form of a key as a regular expression without anchors, for secret scanners. */
export const KEY_PATTERN = "svc_(live|test)_([0-9A-Za-z]{12})_([0-9A-Za-z]{43})_([0-9A-Za-z]{6})";

/** Longer keys, in characters, are refused unread. */
export const MAX_KEY_LENGTH = 128;

/** Returns `size` random bytes; `crypto.randomBytes` outside tests. */
export type RandomBytes = (size: number) => Buffer;

export type ParsedKey = {
  readonly env: KeyEnv;
  readonly id: string;
};

export type GeneratedKey = ParsedKey & {
  /** The whole key with its secret. It is shown once to its holder and never stored. */
  readonly key: string;
};

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ID_LENGTH = 12;
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

function randomBase62(random: RandomBytes, bytes: number, length: number): string {
  return base62(BigInt(`0x${random(bytes).toString("hex")}`), length);
}

function checkSum(text: string): string {
  return base62(BigInt(crc32(text)), CHECK_LENGTH);
}

/** Makes a new public id. 16 bytes for 71 bits leave no measurable bias. */
export function generateKeyId(random: RandomBytes): string {
  return randomBase62(random, 16, ID_LENGTH);
}

export function isKeyId(text: string): boolean {
  return /^[0-9A-Za-z]{12}$/.test(text);
}

/** Makes a key with 256 bits of `random` for the given id. */
export function generateKey(env: KeyEnv, id: string, random: RandomBytes): GeneratedKey {
  const body = `svc_${env}_${id}_${randomBase62(random, 32, SECRET_LENGTH)}`;
  return { env, id, key: `${body}_${checkSum(body)}` };
}

/**
 * Parses the public parts of a key; undefined if its form or its checksum is wrong. It takes text of any size and
 * content.
 */
export function parseKey(text: string): ParsedKey | undefined {
  if (text.length > MAX_KEY_LENGTH) return undefined;
  const match = WHOLE_KEY.exec(text);
  const id = match?.[2];
  if (id === undefined) return undefined;
  if (checkSum(text.slice(0, -CHECK_LENGTH - 1)) !== match?.[4]) return undefined;
  return { env: match[1] === "test" ? "test" : "live", id };
}
