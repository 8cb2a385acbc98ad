import type { KeyRequest } from "../../../gateway/keys/key-admin.ts";

export function keyRequest(changes: Partial<KeyRequest> = {}): KeyRequest {
  const plain = { name: "ci", owner: null, env: "live", models: "all", limits: {}, quota: {} } as const;
  return { ...plain, priority: "DEFAULT", weight: 1, expiresAtMs: null, ...changes };
}
