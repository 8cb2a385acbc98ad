import { AllowedNetworks } from "./allowed-networks.ts";
import { type Pepper, pseudonym } from "./key-digest.ts";
import type { KeyLimits, KeyPriority, KeyQuota, KeyRecord } from "./key-record.ts";

/**
 * Whoever a request comes from, and what they may do. It is made once per change of the record and holds nothing that
 * opens the service.
 */
export type Principal = {
  /** The public id of the key. It is fit for logs. */
  readonly keyId: string;
  /** The owner as the operator wrote it; null where the key stands for itself. */
  readonly owner: string | null;
  /** The catalog ids of the models that the key may use, or "all". */
  readonly models: ReadonlySet<string> | "all";
  /** The addresses from which the key may be used; undefined where it may be used from anywhere. */
  readonly networks: AllowedNetworks | undefined;
  /** The key's limits; an absent one is no limit of its own. */
  readonly limits: KeyLimits;
  /** The key's quota; an absent one is no quota. */
  readonly quota: KeyQuota;
  /** The class of service while requests wait. */
  readonly priority: KeyPriority;
  /** The share among waiting keys of the same class, at least 1. */
  readonly weight: number;
  /**
   * 32 base64url characters that stand for the owner, or for the key where it has none; they are the same on every
   * gateway.
   */
  readonly tenant: string;
  /** The isolation domain of cached prefixes, 43 base64url characters. Keys of one owner have one. */
  readonly cacheSalt: string;
  /**
   * 32 bytes that key digests of the owner's prompts and sessions, by which requests find their way. They are the same
   * on every gateway, differ for every `cacheSalt`, and stay in the gateway.
   */
  readonly routingKey: Buffer;
  /** The revision of the record, which grows with every change of it. */
  readonly revision: number;
};

const TENANT_BYTES = 24;

/** Makes the principal of a record. */
export function makePrincipal(record: KeyRecord, pepper: Pepper): Principal {
  const subject = record.owner === null ? ["key", record.id] : ["owner", record.owner];
  return Object.freeze<Principal>({
    keyId: record.id,
    owner: record.owner,
    models: record.models.includes("*") ? "all" : new Set(record.models),
    networks: record.allowIps && new AllowedNetworks(record.allowIps),
    limits: record.limits,
    quota: record.quota,
    priority: record.priority,
    weight: record.weight,
    tenant: pseudonym(pepper, "tenant", subject).subarray(0, TENANT_BYTES).toString("base64url"),
    cacheSalt: pseudonym(pepper, "cache-salt", [...subject, record.cacheSalt]).toString("base64url"),
    routingKey: pseudonym(pepper, "routing", [...subject, record.cacheSalt]),
    revision: record.revision,
  });
}

/** Returns whether the key may see and use `model`, a catalog id. */
export function mayUse(principal: Principal, model: string): boolean {
  return principal.models === "all" || principal.models.has(model);
}
