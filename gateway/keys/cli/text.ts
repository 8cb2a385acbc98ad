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

export function keyText({ env: _env, models, allowIps, limits, quota, secrets, ...rest }: KeySummary): string {
  const { perModel = {}, ...ofAllModels } = limits;
  const shown: readonly (readonly [string, unknown])[] = [
    ...Object.entries(rest),
    ["models", modelsText(models)],
    ["allowIps", allowIps?.join(",")],
    ...Object.entries(ofAllModels),
    ...Object.entries(perModel).map(([model, rates]) => [model, ratesText(rates)] as const),
    ...Object.entries(quota),
    ...secrets.map(({ last4, created, notAfter }) => {
      return ["secret", `…${last4} of ${created}, until ${notAfter ?? "further notice"}`] as const;
    }),
  ];
  return columns(
    shown.flatMap(([label, value]) => (value === null || value === undefined ? [] : [[label, `${value}`]])),
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
