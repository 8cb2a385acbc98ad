/** A schema with texts that it allows and texts that it does not. */
export type SchemaCase = {
  /** The name of the case, by which it can be found in its set. */
  readonly name: string;
  /** The text of the schema. */
  readonly schema: string;
  /** The texts of values, and whether the schema allows each. */
  readonly tests: readonly { readonly text: string; readonly isValid: boolean }[];
};
