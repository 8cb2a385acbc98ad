import { isDeepStrictEqual } from "node:util";
import type { KeyRecord, KeySet } from "./key-record.ts";

/** The difference of one key between two sets. */
export type KeyChange = {
  /** The command that makes such a change, for example `create`, `rotate` or `set-limits`; otherwise `change`. */
  readonly action: string;
  readonly keyId: string;
  /** Names of the changed fields; a field of limits is followed by a dot and the name of the limit. */
  readonly fields: string[];
};

const STATUS_ACTION: Readonly<Record<KeyRecord["status"], string>> = {
  active: "enable",
  disabled: "disable",
  revoked: "revoke",
};

/** Fields that every change modifies. */
const BOOKKEEPING = new Set(["updated", "revision"]);

/** Returns the changes of each key between two sets, the keys of `after` first. */
export function keyChanges(before: KeySet, after: KeySet): readonly KeyChange[] {
  const known = new Map(before.keys.map((record) => [record.id, record]));
  const changes = after.keys.flatMap((record): KeyChange[] => {
    const old = known.get(record.id);
    known.delete(record.id);
    if (old === record) return [];
    if (old === undefined) return [{ action: "create", keyId: record.id, fields: [] }];
    const fields = differing(old, record);
    return [{ action: actionOf(old, record, fields), keyId: record.id, fields }];
  });
  return [...changes, ...[...known.keys()].map((keyId) => ({ action: "remove", keyId, fields: [] }))];
}

function actionOf(old: KeyRecord, { status }: KeyRecord, fields: readonly string[]): string {
  if (old.status !== status) return STATUS_ACTION[status];
  if (fields.includes("endRunning")) return "kill";
  if (fields.includes("secrets")) return "rotate";
  if (fields.length > 0 && fields.every((field) => field === "models")) return "set-models";
  if (fields.length > 0 && fields.every((field) => field === "allowIps")) return "set-ips";
  if (fields.length > 0 && fields.every((field) => /^(limits|quota)\./.test(field))) return "set-limits";
  return "change";
}

function differing(old: object, record: object, prefix = ""): string[] {
  return [...new Set([...Object.keys(old), ...Object.keys(record)])].flatMap((name) => {
    const [was, is] = [Reflect.get(old, name), Reflect.get(record, name)];
    if (BOOKKEEPING.has(name) || isDeepStrictEqual(was, is)) return [];
    if (name === "limits" || name === "quota") return differing(was, is, `${name}.`);
    return [`${prefix}${name}`];
  });
}
