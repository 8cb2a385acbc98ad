import * as z from "zod";
import { isNetwork } from "./allowed-networks.ts";

/*
 * The stored form of keys. A record does not open the service: it holds only a keyed digest of the secret.
 * An older release may read a set that a newer one has written, after a rollback. Unknown fields are ignored, kept and
 * written again. A release that adds a field which older ones must not ignore, such as a restriction, therefore raises
 * `v`: of the record if one key is restricted, of the set otherwise. A set with another `v` is refused as a whole.
 * Limits and quotas are restrictions: an unknown or misspelt one refuses the set without a higher `v`.
 */

/** Returns the schema of an object whose unknown fields are kept; they are absent from its type. */
function keepingUnknown<Shape extends z.ZodRawShape>(
  known: z.ZodObject<Shape>,
): z.ZodType<z.output<z.ZodObject<Shape>>, unknown> {
  return known.loose();
}

/** RFC 3339 in UTC, as `Date.prototype.toISOString` writes it. */
const instant = z.iso.datetime();

const positive = z.int().min(1);

/** A limit, with the help text of its option on the command line. */
const limit = (help: string) => positive.optional().describe(help);

const rates = {
  rpm: limit("requests per minute"),
  itpm: limit("input tokens per minute"),
  otpm: limit("output tokens per minute"),
  concurrency: limit("generations at one time"),
};

const limits = z.strictObject({
  ...rates,
  /** Absent: the gateway's limit for every key. */
  countConcurrency: limit("token counts at one time"),
  /** Absent: the limit of the model's cluster for every key. */
  queued: limit("requests that may wait at one time for one model"),
  /** It never raises the gateway's own limit. */
  maxBodyBytes: limit("largest request body"),
  /** Tokens, reasoning included; a request with a higher or no limit gets this one. */
  maxOutputTokens: limit("longest answer"),
  /** Tighter limits for single models by catalog id, in addition to the limits above. */
  perModel: z.record(z.string().min(1).max(64), z.strictObject(rates)).optional(),
});

const quota = z.strictObject({ tokensPerDay: limit("quota of input and output tokens per day in UTC") });

const secret = z.object({
  /** HMAC-SHA256 of the whole key under the pepper, in base64url. */
  hash: z.string().regex(/^[A-Za-z0-9_-]{43}$/),
  pepperId: z.string().regex(/^[0-9a-f]{8}$/),
  created: instant,
  /** The secret is refused from this time on; null: it ends with the key. */
  notAfter: instant.nullable(),
  /** Last four characters of the key, by which its holder distinguishes keys. They belong to the checksum. */
  last4: z.string().regex(/^[0-9A-Za-z]{4}$/),
});

const record = z.object({
  v: z.literal(1),
  /** Public part of the key, 12 base62 characters. Rotation does not change it. */
  id: z.string().regex(/^[0-9A-Za-z]{12}$/),
  /** Display name; it need not be unique. */
  name: z.string().min(1).max(128),
  /** Keys of one owner are one tenant and share cached prefixes; null if the key has no owner. */
  owner: z.string().min(1).max(128).nullable(),
  /** Keys of the kind `test` open nothing. */
  env: z.enum(["live", "test"]),
  /** `disabled` can be undone, `revoked` cannot. */
  status: z.enum(["active", "disabled", "revoked"]),
  /** Set if the running requests of the key end when it is disabled or revoked; absent: they complete. */
  endRunning: z.literal(true).optional(),
  /** Newest last: one, or two during a rotation. */
  secrets: z.array(keepingUnknown(secret)).min(1).max(2),
  /** Catalog ids, or `["*"]` for every model. */
  models: z.array(z.string().min(1).max(64)).refine((list) => list.length === 1 || !list.includes("*")),
  /** Client addresses and networks (`10.0.0.0/8`) from which the key may be used; absent: any. */
  allowIps: z.array(z.string().max(64).refine(isNetwork)).min(1).max(64).optional(),
  priority: z.enum(["HIGH", "DEFAULT", "LOW"]),
  weight: z.int().min(1).max(1000),
  limits,
  quota,
  /** Set if requests may keep answers from ending (`ignore_eos`), as load generators do; absent: refused. */
  loadTests: z.literal(true).optional(),
  /** 16 random bytes in base64url. A new value separates the key from all prefixes cached for it. */
  cacheSalt: z.string().regex(/^[A-Za-z0-9_-]{22}$/),
  created: instant,
  /** The key is refused from this time on; null: no expiry. */
  expiresAt: instant.nullable(),
  updated: instant,
  revision: positive,
});

export const keyRecordSchema = keepingUnknown(record);

/** The fields of the limits on single models, of all limits of a key, and of its quota; numbers have a description. */
export const LIMIT_FIELDS = { rates, limits: limits.shape, quota: quota.shape };

export const RECORD_FIELDS: ReadonlySet<string> = new Set(Object.keys(record.shape));

const keySet = z.object({
  v: z.literal(1),
  /** Number of changes of the set, incremented by each; a set with a smaller revision is an old copy and refused. */
  revision: z.int().min(0),
  /** MAC of the last line of the audit log, which reveals a truncated log; absent before the first keyed line. */
  auditHead: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
  keys: z.array(keyRecordSchema).refine((keys) => new Set(keys.map((key) => key.id)).size === keys.length),
});

export const keySetSchema = keepingUnknown(keySet);

export type KeyRecord = Readonly<z.infer<typeof record>>;
export type KeySecret = Readonly<z.infer<typeof secret>>;
export type KeyLimits = Readonly<z.infer<typeof limits>>;
export type KeyQuota = Readonly<z.infer<typeof quota>>;
export type KeyPriority = KeyRecord["priority"];
/** The keys are in creation order, revoked ones included. */
export type KeySet = Readonly<Omit<z.infer<typeof keySet>, "keys">> & { readonly keys: readonly KeyRecord[] };

export const EMPTY_KEY_SET: KeySet = { v: 1, revision: 0, keys: [] };

/** Returns the value of a JSON text; undefined if it is none. */
export function jsonOf(text: string | Buffer): unknown {
  try {
    return JSON.parse(text.toString("utf8"));
  } catch {
    return undefined;
  }
}
