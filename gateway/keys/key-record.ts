import * as z from "zod";
import { isNetwork } from "./allowed-networks.ts";
import { KEY_ENVS } from "./key-format.ts";

/*
 * What is stored about keys. Nothing in a record opens the service: of the secret it holds a keyed digest only.
 *
 * A newer release may have written a set, and an older one reads it after a way back. Fields that a release does not
 * know are kept, passed over and written again. So a release that adds what an older one must not pass over, such as a
 * restriction, raises `v`: of a record where one key is restricted, of the set otherwise. A set with another `v` is
 * refused as a whole. Limits and quotas are restrictions, each of them: an unknown one there refuses the set without a
 * higher `v`, a misspelt one included.
 */

/** Returns the schema of an object whose unknown fields are kept; its type does not show them. */
function keepingUnknown<Shape extends z.ZodRawShape>(
  known: z.ZodObject<Shape>,
): z.ZodType<z.output<z.ZodObject<Shape>>, unknown> {
  return known.loose();
}

/** A moment, RFC 3339 in UTC, as `Date.prototype.toISOString` writes it. */
const instant = z.iso.datetime();

const positive = z.int().min(1);

/** Limits that count per minute or at one moment; an absent one is no limit of this key's own. */
const rates = {
  /** The most requests per minute. */
  rpm: positive.optional(),
  /** The most input tokens per minute. */
  itpm: positive.optional(),
  /** The most output tokens per minute, reasoning included. */
  otpm: positive.optional(),
  /** The most generations at one time. */
  concurrency: positive.optional(),
};

const limits = z.strictObject({
  ...rates,
  /** The most token counts at one time; absent, it is what the gateway lets every key have. */
  countConcurrency: positive.optional(),
  /**
   * The most requests that may wait at one time for one model; absent, it is what the model's cluster lets every key
   * have.
   */
  queued: positive.optional(),
  /** The largest request body in bytes; it never raises the gateway's own limit. */
  maxBodyBytes: positive.optional(),
  /**
   * The most tokens of one answer, reasoning included; a request that asks for more, or does not say, gets this many.
   */
  maxOutputTokens: positive.optional(),
  /** Tighter limits for single models by catalog id; they apply besides the limits above. */
  perModel: z.record(z.string().min(1).max(64), z.strictObject(rates)).optional(),
});

const quota = z.strictObject({
  /** The most input and output tokens together per day in UTC; absent, there is no quota. */
  tokensPerDay: positive.optional(),
});

const secret = z.object({
  /** The HMAC-SHA256 of the whole key under the pepper, in base64url. */
  hash: z.string().regex(/^[A-Za-z0-9_-]{43}$/),
  /** The id of the pepper that made `hash`. */
  pepperId: z.string().regex(/^[0-9a-f]{8}$/),
  /** The time at which the secret was made. */
  created: instant,
  /** The moment from which on the secret is refused; null where it ends with the key. */
  notAfter: instant.nullable(),
  /**
   * The last four characters of the key, by which its holder can tell it from another. They belong to the check sum.
   */
  last4: z.string().regex(/^[0-9A-Za-z]{4}$/),
});

const record = z.object({
  /** The version of the form of this record. */
  v: z.literal(1),
  /** The public part of the key, 12 base62 characters. It never changes, also not by rotation. */
  id: z.string().regex(/^[0-9A-Za-z]{12}$/),
  /** The name for people; it need not be unique. */
  name: z.string().min(1).max(128),
  /** The owner, whose keys count as one tenant and share cached prefixes; null where the key stands for itself. */
  owner: z.string().min(1).max(128).nullable(),
  /** The kind of deployment that takes the key. */
  env: z.enum(KEY_ENVS),
  /** What the operator made of the key. `disabled` can be undone, `revoked` cannot. */
  status: z.enum(["active", "disabled", "revoked"]),
  /**
   * True where what runs for the key was to end with it, when it was disabled or revoked; absent, that goes on to its
   * end.
   */
  endRunning: z.literal(true).optional(),
  /** The secrets, newest last: one, or two while the holder changes over to a new one. */
  secrets: z.array(keepingUnknown(secret)).min(1).max(2),
  /** The catalog ids of the models that the key may use, or `["*"]` for every model. */
  models: z.array(z.string().min(1).max(64)).refine((list) => list.length === 1 || !list.includes("*")),
  /**
   * The addresses and networks (`10.0.0.0/8`) from which the key may be used, by the address that the gateway takes a
   * request to come from; absent, it may be used from anywhere.
   */
  allowIps: z.array(z.string().max(64).refine(isNetwork)).min(1).max(64).optional(),
  /** The class of service while requests wait. */
  priority: z.enum(["HIGH", "DEFAULT", "LOW"]),
  /** The share among keys of the same class while requests wait; 1 is the usual share. */
  weight: z.int().min(1).max(1000),
  limits,
  quota,
  /** 16 random bytes in base64url. A new value parts the key from every prefix that was cached for it. */
  cacheSalt: z.string().regex(/^[A-Za-z0-9_-]{22}$/),
  /** The time at which the key was made. */
  created: instant,
  /** The moment from which on the key is refused; null where it never ends by itself. */
  expiresAt: instant.nullable(),
  /** The time of the newest change. */
  updated: instant,
  /** The number of changes of this record, which grows by one with each. */
  revision: positive,
});

/** The schema of what is stored of one key. Unknown fields are kept. */
export const keyRecordSchema = keepingUnknown(record);

/** The names of the fields of a record that this release knows. */
export const RECORD_FIELDS: ReadonlySet<string> = new Set(Object.keys(record.shape));

const keySet = z.object({
  /** The version of the form of the set. */
  v: z.literal(1),
  /**
   * The number of changes of the set, which grows by one with each; a set with a smaller one is taken for an old copy
   * and refused.
   */
  revision: z.int().min(0),
  /** The MAC of the last line of the audit log, by which a cut of the log shows; absent before the first keyed line. */
  auditHead: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
  keys: z.array(keyRecordSchema).refine((keys) => new Set(keys.map((key) => key.id)).size === keys.length),
});

/** The schema of everything that is stored: what the key file holds. Unknown fields are kept. */
export const keySetSchema = keepingUnknown(keySet);

/** What is stored of one key. */
export type KeyRecord = Readonly<z.infer<typeof record>>;
/** What is stored of one secret of a key: a digest, never the secret. */
export type KeySecret = Readonly<z.infer<typeof secret>>;
/** The limits of a key; an absent one is no limit of its own. */
export type KeyLimits = Readonly<z.infer<typeof limits>>;
/** The quotas of a key; an absent one is none. */
export type KeyQuota = Readonly<z.infer<typeof quota>>;
/** The class of service of a key while requests wait. */
export type KeyPriority = KeyRecord["priority"];
/** Everything that is stored about keys; `v` is the version of the form. */
export type KeySet = {
  readonly v: 1;
  /** The number of changes of the set so far, from 0. */
  readonly revision: number;
  /**
   * The MAC of the last line of the audit log, by which a cut of the log shows; undefined before the first keyed line.
   */
  readonly auditHead?: string | undefined;
  /** The records in the order of their making, revoked ones included. */
  readonly keys: readonly KeyRecord[];
};

/** The key set before its first key: no records, at revision 0. */
export const EMPTY_KEY_SET: KeySet = { v: 1, revision: 0, keys: [] };
