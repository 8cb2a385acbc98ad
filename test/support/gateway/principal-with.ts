import type { KeyLimits, KeyQuota } from "../../../gateway/keys/key-record.ts";
import type { Principal } from "../../../gateway/keys/principal.ts";

/** Makes a key with these limits; its other fields are arbitrary. */
export function principalWith(limits: KeyLimits, quota: KeyQuota = {}, keyId = "keyA"): Principal {
  const rest = {
    name: "test",
    owner: null,
    models: "all",
    priority: "DEFAULT",
    weight: 1,
    loadTests: false,
    revision: 1,
  } as const;
  return {
    ...rest,
    keyId,
    networks: undefined,
    limits,
    quota,
    tenant: `tenant-${keyId}`,
    cacheSalt: `salt-${keyId}`,
    routingKey: Buffer.alloc(32),
  };
}
