import type { RedisState } from "../../state/redis-state.ts";
import type { Pepper } from "../key-digest.ts";
import { type KeyState, parseState, stateText } from "../newest-state.ts";
import { RecordSigner } from "./record-signer.ts";
import { StoredKeys } from "./stored-keys.ts";

/**
 * The newest state of the keys that was in use at any gateway, signed, in the store that they share. Where a key file
 * is mounted, as from a Secret, it could not be recorded beside the file. Its methods reject with `KeyStoreError`.
 */
export class SharedState {
  readonly #stored: StoredKeys;
  /** Use of the signature: revisions of a key file are no revisions of the store. */
  readonly #use: string;

  constructor(state: RedisState, of: "file" | "store") {
    this.#stored = new StoredKeys(state);
    this.#use = `newest ${of}`;
  }

  /** Resolves to the state of the keys with this pepper; undefined if none was recorded. */
  async read(pepper: Pepper): Promise<KeyState | undefined> {
    return parseState(new RecordSigner(pepper).openText(this.#use, await this.#stored.newest(pepper.id)) ?? "");
  }

  async note(pepper: Pepper, state: KeyState): Promise<void> {
    await this.#stored.noteNewest(pepper.id, new RecordSigner(pepper).signText(this.#use, stateText(state)));
  }
}
