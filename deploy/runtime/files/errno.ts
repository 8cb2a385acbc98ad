/** Returns the system's code of an error, such as `EACCES`; "" if it has none. */
export function errnoOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}
