import { randomBytes } from "node:crypto";
import { createKey } from "./key-admin.ts";
import { updateKeyFile } from "./key-file.ts";
import { indexKeys } from "./key-index.ts";

/** What issuing a local key needs. */
export type LocalKeyOptions = {
  /** The path of the key file, which is made with its folder and pepper when missing. */
  readonly file: string;
  /**
   * The key of an earlier start as it was stored, which is used again while it still opens every model; undefined where
   * there is none.
   */
  readonly existing: string | undefined;
  /** The wall clock in milliseconds since the epoch. */
  readonly nowMs: number;
};

/**
 * Returns the text of a key without limits for all models, for the start on one machine: the existing one, or a new
 * one. Waits for the key file's lock until `signal` aborts. Throws what `isKeyStoreError` knows.
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
