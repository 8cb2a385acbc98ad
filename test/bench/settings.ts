import type { ReplaySettings } from "./replay/replay-settings.ts";
import type { ScaleSettings } from "./scale/scale-settings.ts";

/** How long and how often to measure. */
export type BenchSettings = {
  /** The length of one measured stretch under load, in seconds. */
  readonly seconds: number;
  /** Interleaved repetitions, of which the median is taken. */
  readonly repetitions: number;
  /** Smaller loads too: for a look, not for a release. */
  readonly quick: boolean;
  /** Every cell and every gateway of the stand: for hours, not minutes. Default: those that a release wants. */
  readonly full?: boolean;
  /** The cells of the stand, by their short names. Default: those of the extent. */
  readonly cells?: readonly string[];
  /** What the stand measures, by name. Default: what of the extent is installed. */
  readonly targets?: readonly string[];
  /** Whether the bench of schemas measures what those cost that are made to cost much. Default: no. */
  readonly hostile?: boolean;
  /** The file of the page that the stand writes, with its plots beside it. Default: none. */
  readonly page?: string;
  /** The folder of public data that a bench reads. Default: none, and only data of our own is measured. */
  readonly data?: string;
  /** What the replay runs. */
  readonly replay: ReplaySettings;
  /** How large the installation of the bench of scale is. */
  readonly scale: ScaleSettings;
};
