/** The system's own word for what went wrong (`EACCES`); "" where there is none. */
export function errnoOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}
