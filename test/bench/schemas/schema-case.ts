/** A schema with valid and invalid texts. */
export type SchemaCase = {
  /** The name of the case in its set. */
  readonly name: string;
  readonly schema: string;
  /** The texts of values, each with its validity. */
  readonly tests: readonly { readonly text: string; readonly isValid: boolean }[];
};
