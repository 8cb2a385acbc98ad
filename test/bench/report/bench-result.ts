/** One line of a result: numbers are kept unrounded, rounding is the table's. NaN stands for what was not measured. */
export type Row = Readonly<Record<string, number | string>>;

/** A column of a result's table. */
export type Column = {
  /** The name of the field in the rows, with its unit. */
  readonly key: string;
  readonly title: string;
  /** The number of digits behind the decimal point, for numbers. Default: 1. */
  readonly digits?: number;
};

/**
 * What a bench measured. Ratios stand in the first columns: they mean something on a busy machine, absolutes hardly.
 */
export type BenchResult = {
  readonly title: string;
  readonly columns: readonly Column[];
  readonly rows: readonly Row[];
  /** The sentences that say how to read the table. */
  readonly notes: readonly string[];
};
