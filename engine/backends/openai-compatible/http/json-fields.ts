/** A JSON object of which nothing is known yet. */
export type JsonFields = Readonly<Record<string, unknown>>;

/** An empty one for everything that is not an object, `null` too: engines differ in what they leave out. */
export function asFields(value: unknown): JsonFields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonFields) : {};
}

export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function asText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A count: a whole number from 0 up. */
export function asCount(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** The fields of a JSON object in `text`; `undefined` if it is none. */
export function parseFields(text: string): JsonFields | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonFields) : undefined;
  } catch {
    return undefined;
  }
}
