/** A JSON object of which nothing is known yet. */
export type JsonFields = Readonly<Record<string, unknown>>;

/**
 * Returns the fields of an object; none for everything else, `null` included, as engines differ in what they leave out.
 */
export function asFields(value: unknown): JsonFields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonFields) : {};
}

/** Returns a list; an empty one for everything else. */
export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Returns a text; an empty one for everything else. */
export function asText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Returns a count, a whole number from 0 up; undefined for everything else. */
export function asCount(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** Parses the fields of a JSON object; undefined where `text` is none. */
export function parseFields(text: string): JsonFields | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonFields) : undefined;
  } catch {
    return undefined;
  }
}
