export type JsonFields = Readonly<Record<string, unknown>>;

/** Returns no fields for other values, `null` included: engines differ in the fields that they omit. */
export function asFields(value: unknown): JsonFields {
  return fieldsOf(value) ?? {};
}

function fieldsOf(value: unknown): JsonFields | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonFields) : undefined;
}

export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function asText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Returns a count, an integer from 0; undefined for other values. */
export function asCount(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** Parses the fields of a JSON object; undefined if `text` is none. */
export function parseFields(text: string): JsonFields | undefined {
  try {
    return fieldsOf(JSON.parse(text));
  } catch {
    return undefined;
  }
}
