/** How long and how often to measure. */
export type BenchSettings = {
  /** The length of one measured stretch under load, in seconds. */
  readonly seconds: number;
  /** Interleaved repetitions, of which the median is taken. */
  readonly repetitions: number;
  /** Smaller loads too: for a look, not for a release. */
  readonly quick: boolean;
};
