import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";

export const ALERTS_FILE = fileURLToPath(new URL("../../../deploy/monitoring/alerts.yaml", import.meta.url));

export type Rule = {
  readonly expr: string;
  readonly record?: string;
  readonly alert?: string;
  readonly for?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
};

export function alertRules(): readonly Rule[] {
  const { groups } = parse(readFileSync(ALERTS_FILE, "utf8")) as { readonly groups: { readonly rules: Rule[] }[] };
  return groups.flatMap(({ rules }) => rules);
}
