import { Counter, Gauge, type Registry } from "prom-client";
import { FollowedFile } from "../../deploy/runtime/files/followed-file.ts";
import { FileError } from "../../deploy/runtime/files/private-file.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { OPENINGS, Sealing } from "./sealing.ts";
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

/** Registers the sealing keys in force and the outcomes of opening sealed texts as metrics, read at each scrape. */
export function registerSealingStats(registry: Registry, sealing: Pick<Sealing, "keyIds" | "openings">): void {
  new Gauge({
    name: "svc_sealing_keys",
    help: "1 for each sealing key in force, by id and use: the first one seals and opens, the others only open.",
    labelNames: ["key_id", "does"],
    registers: [registry],
    collect() {
      this.reset();
      for (const [at, key_id] of sealing.keyIds.entries()) this.set({ key_id, does: at === 0 ? "seals" : "opens" }, 1);
    },
  });
  new Counter({
    name: "svc_sealed_texts_total",
    help: "Sealed texts that callers sent back, by outcome: opened; unknown_key, which names an unknown key; refused, which is not ours, was changed or was sealed for another purpose.",
    labelNames: ["result"],
    registers: [registry],
    collect() {
      this.reset();
      for (const result of OPENINGS) this.inc({ result }, sealing.openings[result]);
    },
  });
}
