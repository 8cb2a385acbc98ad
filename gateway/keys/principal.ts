import { AllowedNetworks } from "./allowed-networks.ts";
import { hmacSha256, type Pepper, pseudonym } from "./key-digest.ts";
import type { KeyLimits, KeyPriority, KeyQuota, KeyRecord } from "./key-record.ts";

/** The caller and its rights, made once per change of the record; holds no secret that opens the service. */
export type Principal = {
  /** Public id of the key. It may be logged. */
  readonly keyId: string;
  /** As the operator wrote it; for operators only. */
  readonly name: string;
  /** As the operator wrote it; null if the key has no owner. */
  readonly owner: string | null;
  readonly models: ReadonlySet<string> | "all";
  /** Undefined if the key may be used from any address. */
  readonly networks: AllowedNetworks | undefined;
  readonly limits: KeyLimits;
  readonly quota: KeyQuota;
  readonly priority: KeyPriority;
  readonly weight: number;
  /** Whether requests may keep answers from ending, as load generators do. */
  readonly loadTests: boolean;
  /** Pseudonym of the owner, or of the key if it has none: 32 base64url characters, the same on every gateway. */
  readonly tenant: string;
  /** Isolation domain of cached prefixes, 43 base64url characters; keys of one owner share it. */
  readonly cacheSalt: string;
  /**
   * 32 bytes that key the digests of the owner's prompts and sessions for routing. They are the same on every gateway,
   * differ for every `cacheSalt`, and never leave the gateway.
   */
  readonly routingKey: Buffer;
  readonly revision: number;
};

const TENANT_BYTES = 24;

export function makePrincipal(record: KeyRecord, pepper: Pepper): Principal {
  const subject = record.owner === null ? ["key", record.id] : ["owner", record.owner];
  return Object.freeze<Principal>({
    keyId: record.id,
    name: record.name,
    owner: record.owner,
    models: record.models.includes("*") ? "all" : new Set(record.models),
    networks: record.allowIps && new AllowedNetworks(record.allowIps),
    limits: record.limits,
    quota: record.quota,
    priority: record.priority,
    weight: record.weight,
    loadTests: record.loadTests ?? false,
    tenant: pseudonym(pepper, "tenant", subject).subarray(0, TENANT_BYTES).toString("base64url"),
    cacheSalt: pseudonym(pepper, "cache-salt", [...subject, record.cacheSalt]).toString("base64url"),
    routingKey: pseudonym(pepper, "routing", [...subject, record.cacheSalt]),
    revision: record.revision,
  });
}

export function mayUse(principal: Principal, model: string): boolean {
  return principal.models === "all" || principal.models.has(model);
}

/**
 * Returns 32 bytes that differ for every key, purpose and list of parts, and reveal nothing about them. `key` is the
 * `routingKey` of a principal: gateways that share keys compute the same digest, so that they route a conversation
 * alike.
 */
export function routingDigest(key: Uint8Array, purpose: "prefix" | "affinity", ...parts: readonly string[]): Buffer {
  return hmacSha256(key, JSON.stringify([purpose, ...parts]));
}
