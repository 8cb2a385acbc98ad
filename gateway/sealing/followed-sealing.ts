import { FollowedFile } from "../../deploy/runtime/files/followed-file.ts";
import { FileError } from "../../deploy/runtime/files/private-file.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { Sealing } from "./sealing.ts";
import { readSealingKeys, SealingKeyError, type SealingKeys } from "./sealing-key.ts";

export type FollowedSealingOptions = {
  readonly file: string;
  readonly clock: Pick<Clock, "after">;
  /**
   * Called when files have changed after the first read: with undefined when the keys were loaded, else with why they
   * are unusable.
   */
  readonly onReload: (fault: string | undefined) => void;
  readonly onUnknownKey: (id: string) => void;
};

/**
 * A sealing whose keys are in a file and are reloaded when it changes. An unusable file never removes keys: the last
 * good ones stay.
 */
export class FollowedSealing {
  readonly sealing: Sealing;
  readonly #options: FollowedSealingOptions;
  readonly #followed: FollowedFile;
  #fault: string | undefined;

  private constructor(options: FollowedSealingOptions, keys: SealingKeys) {
    this.#options = options;
    this.sealing = new Sealing(keys, options.onUnknownKey);
    const { file, clock } = options;
    this.#followed = new FollowedFile({ files: [file], clock, take: (signal) => this.#take(signal) });
  }

  /** Reads the file and follows it until `close`. Throws `FileError` and `SealingKeyError` if it is unusable. */
  static async open(options: FollowedSealingOptions): Promise<FollowedSealing> {
    return new FollowedSealing(options, await readSealingKeys(options.file));
  }

  /** Stops following the file; the keys in force stay. */
  close(): void {
    this.#followed.close();
  }

  async #take(signal: AbortSignal): Promise<"taken" | "again"> {
    const { file, onReload } = this.#options;
    const before = this.#fault;
    try {
      const keys = await readSealingKeys(file);
      if (signal.aborted) return "again";
      const isNew = keys.map(({ id }) => id).join() !== this.sealing.keyIds.join();
      this.#fault = undefined;
      this.sealing.use(keys);
      if (isNew || before !== undefined) onReload(undefined);
    } catch (error) {
      if (!(error instanceof FileError || error instanceof SealingKeyError)) throw error;
      this.#fault = error.message;
      if (this.#fault !== before) onReload(this.#fault);
    }
    return this.#fault === undefined ? "taken" : "again";
  }
}
