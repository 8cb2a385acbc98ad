/** A mark that ends the key of a parameter, and the kind of value that it announces. */
export type KeyEnd = { readonly mark: string; readonly value: "by-schema" | "text" | "json" };

/** The marks of a call whose arguments are tags with plain text in them, without white space at their ends. */
export type TaggedCallMarks = {
  /** The marks with which another call begins, or a group of calls. */
  readonly opens: readonly string[];
  /** The mark that ends the name; "" where the next tag does. */
  readonly nameEnd: string;
  /** The mark that ends what else stands at the head of a call, and says nothing; "" where nothing does. */
  readonly headEnd: string;
  /** The mark before the key of a parameter. */
  readonly parameterOpen: string;
  /** The marks of which one ends a key. */
  readonly keyEnds: readonly KeyEnd[];
  /** The mark between key and value; "" where the end of the key opens the value. */
  readonly valueOpen: string;
  /** White space that the template writes at the start of a value. */
  readonly valueLead: string;
  /** White space that the template writes at the end of a value. */
  readonly valueTail: string;
  /** Gives the mark that ends the value of a key. */
  readonly valueClose: (key: string) => string;
  /** The mark that ends the call. */
  readonly callClose: string;
  /** The mark that ends the call too, but belongs to what is around it; "" where there is none. */
  readonly outerClose: string;
  /** Whether `&quot;` and `&amp;` stand for `"` and `&` in a key. */
  readonly escapesKeys: boolean;
  /** Whether a value may be made of parameters itself, as `ElementValue` reads them. */
  readonly nests: boolean;
};
