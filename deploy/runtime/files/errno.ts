/** Returns the system's own word for an error, such as `EACCES`; "" where it has none. */
export function errnoOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}
