export type KeyStoreFault =
  | "missing"
  | "unreadable"
  | "unwritable"
  | "permissions"
  | "not_json"
  | "not_valid"
  | "empty"
  | "revision_went_back"
  | "pepper_missing"
  | "pepper_not_valid"
  | "pepper_mismatch"
  | "locked";

/** The stored keys cannot be used or changed. The message names files and fields, never what stands in them. */
export class KeyStoreError extends Error {
  readonly fault: KeyStoreFault;

  constructor(fault: KeyStoreFault, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, options);
    this.name = "KeyStoreError";
    this.fault = fault;
  }
}
