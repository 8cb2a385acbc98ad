import { FileError, type FileFault } from "../../deploy/runtime/files/file-error.ts";

/** Why stored keys cannot be used or changed: their files are unusable, or their contents do not fit. */
export type KeyStoreFault =
  | FileFault
  | "missing"
  | "unreachable"
  | "conflict"
  | "not_json"
  | "not_valid"
  | "empty"
  | "revision_went_back"
  | "store_replaced"
  | "not_signed"
  | "records_refused"
  | "pepper_missing"
  | "pepper_not_valid"
  | "pepper_mismatch";

/** Stored keys cannot be used or changed. The message names files and fields, never their contents. */
export class KeyStoreError extends Error {
  readonly fault: KeyStoreFault;

  constructor(fault: KeyStoreFault, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, options);
    this.name = "KeyStoreError";
    this.fault = fault;
  }
}

/** Returns whether `error` means that stored keys cannot be used or changed; any other error is a bug. */
export function isKeyStoreError(error: unknown): error is KeyStoreError | FileError {
  return error instanceof KeyStoreError || error instanceof FileError;
}
