import type { RedisState } from "../../state/redis-state.ts";
import { type Pepper, signedText, signText } from "../key-digest.ts";
import { StoredKeys } from "./stored-keys.ts";

/**
 * The newest revision of a key file that was in use at any gateway, signed, in the store that they share. Where a key
 * file is mounted, as from a Secret, it could not be recorded beside the file. Its methods reject with `KeyStoreError`.
 */
export class SharedRevision {
  readonly #stored: StoredKeys;

  constructor(state: RedisState) {
    this.#stored = new StoredKeys(state);
  }

  /** Resolves to the revision of files with this pepper; 0 if none was recorded. */
  async read(pepper: Pepper): Promise<number> {
    return Number(signedText(pepper, "newest file", await this.#stored.newest(pepper.id)) ?? 0);
  }

  async note(pepper: Pepper, revision: number): Promise<void> {
    await this.#stored.noteNewest(pepper.id, signText(pepper, "newest file", `${revision}`));
  }
}
