/**
 * The fault of a file that cannot be used: other users could read or change it (`permissions`), it cannot be read or
 * written, or another process holds its lock.
 */
export type FileFault = "permissions" | "unreadable" | "unwritable" | "locked";

/** The error for a file that cannot be used. Its message names the file and never quotes what stands in it. */
export class FileError extends Error {
  override readonly name = "FileError";
  /** The fault of the file, for programs. */
  readonly fault: FileFault;

  constructor(fault: FileFault, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, options);
    this.fault = fault;
  }
}
