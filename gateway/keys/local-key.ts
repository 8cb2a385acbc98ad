import { randomBytes } from "node:crypto";
import { createKey } from "./key-admin.ts";
import { updateKeyFile } from "./key-file.ts";
import { indexKeys } from "./key-index.ts";

export type LocalKeyOptions = {
  readonly file: string;
  /** The key of an earlier start, which is used again while it still opens every model. */
  readonly existing: string | undefined;
  readonly nowMs: number;
};

/** Returns a key without limits for all models, for the start on one machine: the existing one, or a new one. */
export async function issueLocalKey(options: LocalKeyOptions, signal: AbortSignal): Promise<string> {
  const { file, existing, nowMs } = options;
  return await updateKeyFile(
    file,
    true,
    (set, pepper) => {
      const found = existing === undefined ? undefined : indexKeys(set, pepper, "live").look(existing, nowMs);
      if (existing !== undefined && found !== undefined && "principal" in found && found.principal.models === "all")
        return { set, value: existing };
      const fields = { name: "local", owner: null, env: "live", models: "all", limits: {}, quota: {} } as const;
      const request = { ...fields, priority: "DEFAULT", weight: 1, expiresAtMs: null } as const;
      const made = createKey(set, request, { pepper, nowMs, random: randomBytes });
      return { set: made.set, value: made.value.key };
    },
    signal,
  );
}
