import type { AuditEntry } from "../audit-log.ts";
import type { KeySummary } from "../key-admin.ts";
import type { Finding } from "./doctor.ts";

function columns(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  "))
    .map((line) => `${line.trimEnd()}\n`)
    .join("");
}

function modelsText(models: readonly string[]): string {
  return models.includes("*") ? "all" : models.join(",");
}

/** Writes rates in the syntax of `--per-model`. */
function ratesText(rates: object): string {
  return Object.entries(rates)
    .map(([name, value]) => `${name}=${value}`)
    .join(",");
}

export function listText(keys: readonly KeySummary[]): string {
  if (keys.length === 0) return "no keys\n";
  const head = ["ID", "NAME", "OWNER", "STATE", "MODELS", "EXPIRES"];
  const rows = keys.map((key) => [
    key.id,
    key.name,
    key.owner ?? "-",
    key.state,
    modelsText(key.models),
    key.expiresAt ?? "never",
  ]);
  return columns([head, ...rows]);
}

export function keyText(key: KeySummary): string {
  const { perModel, ...limits } = key.limits;
  const shown: readonly (readonly [string, string | number | null | undefined])[] = [
    ["id", key.id],
    ["name", key.name],
    ["owner", key.owner],
    ["state", key.state],
    ["models", modelsText(key.models)],
    ["allowIps", key.allowIps?.join(",")],
    ["priority", key.priority],
    ["weight", key.weight],
    ...Object.entries(limits),
    ...Object.entries(perModel ?? {}).map(([model, rates]) => [model, ratesText(rates)] as const),
    ["tokensPerDay", key.quota.tokensPerDay],
    ["created", key.created],
    ["updated", key.updated],
    ["expires", key.expiresAt],
    ["revision", key.revision],
    ...key.secrets.map(
      ({ last4, created, notAfter }) =>
        ["secret", `…${last4} of ${created}, until ${notAfter ?? "further notice"}`] as const,
    ),
  ];
  return columns(
    shown.flatMap(([label, value]) => (value === null || value === undefined ? [] : [[label, String(value)]])),
  );
}

export function auditText(entries: readonly AuditEntry[]): string {
  const head = ["TIME", "ACTION", "KEY", "FIELDS", "UID", "HOST", "PROGRAM"];
  const rows = entries.map(({ ts, action, keyId, fields, actor: { uid, host, program } }) => {
    return [ts, action, keyId, fields.join(",") || "-", String(uid ?? "-"), host, program];
  });
  return columns([head, ...rows]);
}

export function findingsText(findings: readonly Finding[]): string {
  return columns(findings.map(({ level, text }) => [level, text]));
}
