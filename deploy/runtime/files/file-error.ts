/**
 * Fault of an unusable file: other users could read or change it (`permissions`), it cannot be read or written, or
 * another process holds its lock.
 */
export type FileFault = "permissions" | "unreadable" | "unwritable" | "locked";

/** An unusable file. The message names the file and never quotes its contents. */
export class FileError extends Error {
  override readonly name = "FileError";
  readonly fault: FileFault;

  constructor(fault: FileFault, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, options);
    this.fault = fault;
  }
}

/** Returns the system's code of an error, such as `EACCES`; "" if it has none. */
export function errnoOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}
