/** A mark that ends the key of a parameter, and the kind of value that it announces. */
export type KeyEnd = { readonly mark: string; readonly value: "by-schema" | "text" | "json" };

/** The marks of a call whose arguments are tags with plain text, without surrounding white space. */
export type TaggedCallMarks = {
  /** The marks that begin another call or a group of calls. */
  readonly opens: readonly string[];
  /** The mark that ends the name; "" if the next tag does. */
  readonly nameEnd: string;
  /** The mark that ends the ignored rest of a call's head; "" for none. */
  readonly headEnd: string;
  readonly parameterOpen: string;
  readonly keyEnds: readonly KeyEnd[];
  /** The mark between key and value; "" if the end of the key begins the value. */
  readonly valueOpen: string;
  /** White space that the template writes at the start of a value. */
  readonly valueLead: string;
  /** White space that the template writes at the end of a value. */
  readonly valueTail: string;
  readonly valueClose: (key: string) => string;
  readonly callClose: string;
  /** An enclosing mark that also ends the call; "" for none. */
  readonly outerClose: string;
  /** Whether keys escape `"` and `&` as `&quot;` and `&amp;`. */
  readonly escapesKeys: boolean;
  /** Whether a value may consist of parameters, as read by `ElementValue`. */
  readonly nests: boolean;
};
