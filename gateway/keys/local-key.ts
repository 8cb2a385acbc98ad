import { randomBytes } from "node:crypto";
import { createKey } from "./key-admin.ts";
import { updateKeyFile } from "./key-file.ts";
import { indexKeys } from "./key-index.ts";

export type LocalKeyOptions = {
  readonly file: string;
  /**
   * The stored key of an earlier start, which is used again while it still opens every model; undefined if there is
   * none.
   */
  readonly existing: string | undefined;
  readonly nowMs: number;
};

/**
 * Returns the text of a key without limits for all models, for the start on one machine: the existing one, or a new
 * one. Waits for the lock of the key file until `signal` aborts. Throws an error that `isKeyStoreError` accepts.
 */
export async function issueLocalKey(options: LocalKeyOptions, signal: AbortSignal): Promise<string> {
  const { file, existing, nowMs } = options;
  return await updateKeyFile(
    file,
    true,
    (set, pepper) => {
      const found = existing === undefined ? undefined : indexKeys(set, pepper, "live").look(existing, nowMs);
      if (existing !== undefined && found !== undefined && "principal" in found && found.principal.models === "all")
        return { set, value: existing };
      const request = {
        name: "local",
        owner: null,
        env: "live",
        models: "all",
        limits: {},
        quota: {},
        priority: "DEFAULT",
        weight: 1,
        expiresAtMs: null,
      } as const;
      const made = createKey(set, request, { pepper, nowMs, random: randomBytes });
      return { set: made.set, value: made.value.key };
    },
    signal,
  );
}
