import { changeFields } from "../key-admin.ts";
import type { KeySetChange } from "../key-file.ts";
import type { KeyLimits, KeyQuota, KeyRecord, KeySet } from "../key-record.ts";

/** What becomes of a key's limits: what is named is taken away first, then the new ones are set; others stay. */
export type LimitChange = {
  readonly limits: KeyLimits;
  readonly quota: KeyQuota;
  /** Names of limits and quotas, or catalog ids whose own limits go. */
  readonly clear: ReadonlySet<string> | "all";
};

/** Throws KeyAdminError: `not_found`, and `conflict` for a revoked key. */
export function setLimits(set: KeySet, id: string, change: LimitChange, nowMs: number): KeySetChange<KeyRecord> {
  return changeFields(set, id, nowMs, ({ limits, quota }) => {
    const { perModel: newPerModel, ...newLimits } = change.limits;
    const { perModel: oldPerModel = {}, ...kept } = without(limits, change.clear);
    const perModel = { ...without(oldPerModel, change.clear), ...newPerModel };
    return {
      limits: { ...kept, ...given(newLimits), ...(Object.keys(perModel).length > 0 && { perModel }) },
      quota: { ...without(quota, change.clear), ...given(change.quota) },
    };
  });
}

/** Of values that may all be absent. */
function without<T extends object>(values: T, names: ReadonlySet<string> | "all"): T {
  return pick(values, (name) => names !== "all" && !names.has(name));
}

function given<T extends object>(values: T): T {
  return pick(values, (_name, value) => value !== undefined);
}

function pick<T extends object>(values: T, wanted: (name: string, value: unknown) => boolean): T {
  return Object.fromEntries(Object.entries(values).filter(([name, value]) => wanted(name, value))) as T;
}
