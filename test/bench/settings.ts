import type { ReplaySettings } from "./replay/replay-settings.ts";
import type { ScaleSettings } from "./scale/scale-settings.ts";

export type BenchSettings = {
  /** The length of one measurement under load, in seconds. */
  readonly seconds: number;
  /** Interleaved repetitions; results are their medians. */
  readonly repetitions: number;
  /** Smaller loads too: for a quick check, not for a release. */
  readonly quick: boolean;
  /** Every cell and every gateway of the stand, which takes hours. Default: those for a release. */
  readonly full?: boolean;
  /** The cells of the stand, by short name. Default: those of the extent. */
  readonly cells?: readonly string[];
  /** The targets of the stand, by name. Default: installed ones of the extent. */
  readonly targets?: readonly string[];
  /** Whether the schemas bench measures hostile schemas. Default: false. */
  readonly hostile?: boolean;
  /** The file of the page that the stand writes, with plots beside it. Default: none. */
  readonly page?: string;
  /** The folder with public data for a bench. Default: none; only the project's own data is measured. */
  readonly data?: string;
  readonly replay: ReplaySettings;
  readonly scale: ScaleSettings;
};
