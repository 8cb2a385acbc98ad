import type { Column, Row } from "./bench-result.ts";

/**
 * Formats rows as aligned text: words left, numbers right, a dash for missing measurements. Lines have no trailing
 * spaces.
 */
export function formatTable(columns: readonly Column[], rows: readonly Row[]): string {
  const cells = rows.map((row) => columns.map((column) => cell(row[column.key], column.digits ?? 1)));
  const widths = columns.map(({ title }, at) =>
    Math.max(title.length, ...cells.map((texts) => texts[at]?.length ?? 0)),
  );
  const isText = columns.map(({ key }) => rows.some((row) => typeof row[key] === "string"));
  const line = (texts: readonly string[]) =>
    texts
      .map((text, at) => (isText[at] ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0)))
      .join("  ")
      .trimEnd();
  const rule = widths.map((width) => "-".repeat(width)).join("  ");
  return [line(columns.map(({ title }) => title)), rule, ...cells.map(line)].join("\n");
}

function cell(value: number | string | undefined, digits: number): string {
  if (typeof value === "string") return value;
  return value === undefined || Number.isNaN(value) ? "-" : value.toFixed(digits);
}

export function markdownTable(columns: readonly Column[], rows: readonly Row[]): string {
  const line = (texts: readonly string[]) => `| ${texts.join(" | ")} |`;
  const cells = rows.map((row) => line(columns.map(({ key, digits }) => cell(row[key], digits ?? 1))));
  return [line(columns.map(({ title }) => title)), line(columns.map(() => "---")), ...cells].join("\n");
}
