export type SchemaCase = {
  readonly name: string;
  readonly schema: string;
  /** The texts of values, each with its validity. */
  readonly tests: readonly { readonly text: string; readonly isValid: boolean }[];
};
