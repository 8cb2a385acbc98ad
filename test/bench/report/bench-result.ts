/** A row of a result, with unrounded numbers; NaN for missing measurements. */
export type Row = Readonly<Record<string, number | string>>;

export type Column = {
  /** The field in the rows, with its unit. */
  readonly key: string;
  readonly title: string;
  /** The digits after the decimal point. Default: 1. */
  readonly digits?: number;
};

/**
 * The result of a bench. Ratios stand in the first columns: unlike absolute figures, they are meaningful on a busy
 * machine.
 */
export type BenchResult = {
  readonly title: string;
  readonly columns: readonly Column[];
  readonly rows: readonly Row[];
  readonly notes: readonly string[];
};
