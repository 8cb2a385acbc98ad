import { FileError, type FileFault } from "../../deploy/runtime/files/file-error.ts";

/** Why stored keys cannot be used or changed: their files cannot, or what stands in them does not fit. */
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

/**
 * An error of stored keys that cannot be used or changed. Its message names files and fields, never what stands in
 * them.
 */
export class KeyStoreError extends Error {
  /** The kind of the error, for programs. */
  readonly fault: KeyStoreFault;

  constructor(fault: KeyStoreFault, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, options);
    this.name = "KeyStoreError";
    this.fault = fault;
  }
}

/** Returns whether `error` says why stored keys cannot be used or changed; otherwise it is a fault of ours. */
export function isKeyStoreError(error: unknown): error is KeyStoreError | FileError {
  return error instanceof KeyStoreError || error instanceof FileError;
}
