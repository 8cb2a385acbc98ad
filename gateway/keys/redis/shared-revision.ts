import type { RedisState } from "../../state/redis-state.ts";
import type { Pepper } from "../key-digest.ts";
import { RecordSigner } from "./record-signer.ts";
import { StoredKeys } from "./stored-keys.ts";

/** Use of the signature of a revision. */
const USE = "newest revision";

/**
 * The newest revision of a key file that was in use at any gateway, in the store that they share: where the file is
 * mounted, as from a Secret, it could not be recorded beside it. Its methods reject with `KeyStoreError`.
 */
export class SharedRevision {
  readonly #stored: StoredKeys;

  constructor(state: RedisState) {
    this.#stored = new StoredKeys(state);
  }

  /** Resolves to the revision of the file with this pepper; 0 if none was recorded. */
  async read(pepper: Pepper): Promise<number> {
    const text = new RecordSigner(pepper).openText(USE, await this.#stored.newest(pepper.id));
    return Number(/^\d{1,15}$/.exec(text ?? "")?.[0] ?? 0);
  }

  /** Records a revision in use, unless a newer one is recorded. Resolves to the newest one. */
  async note(pepper: Pepper, revision: number): Promise<number> {
    const newest = await this.read(pepper);
    if (newest >= revision) return newest;
    await this.#stored.noteNewest(pepper.id, new RecordSigner(pepper).signText(USE, `${revision}`));
    return revision;
  }
}
