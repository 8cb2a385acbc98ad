export type KeyEnd = { readonly mark: string; readonly value: "by-schema" | "text" | "json" };

/** The marks of a call whose arguments are tags with plain text, without surrounding white space. */
export type TaggedCallMarks = {
  readonly opens: readonly string[];
  /** The mark that ends the name; "" if the next tag does. */
  readonly nameEnd: string;
  readonly headEnd: string;
  readonly parameterOpen: string;
  readonly keyEnds: readonly KeyEnd[];
  readonly valueOpen: string;
  readonly valueLead: string;
  readonly valueTail: string;
  readonly valueClose: (key: string) => string;
  readonly callClose: string;
  readonly outerClose: string;
  /** Whether keys escape `"` and `&` as `&quot;` and `&amp;`. */
  readonly escapesKeys: boolean;
  readonly nests: boolean;
};
