import type { ReplaySettings } from "./replay/replay-settings.ts";

/** How long and how often to measure. */
export type BenchSettings = {
  /** The length of one measured stretch under load, in seconds. */
  readonly seconds: number;
  /** Interleaved repetitions, of which the median is taken. */
  readonly repetitions: number;
  /** Smaller loads too: for a look, not for a release. */
  readonly quick: boolean;
  /** The folder of public data that a bench reads. Default: none, and only data of our own is measured. */
  readonly data?: string;
  /** What the replay runs. */
  readonly replay: ReplaySettings;
};
