import { type KeyChange, keyChanges, lineCheck, RESTORE } from "./audit-log.ts";
import type { Pepper } from "./key-digest.ts";
import {
  assertPepperFits,
  type KeyFile,
  type KeySetChanger,
  makePepperFile,
  readKeySet,
  readPepper,
} from "./key-file.ts";
import { EMPTY_KEY_SET, type KeySet } from "./key-record.ts";
import { changedMeanwhile, isKeyStoreError, KeyStoreError } from "./key-store.ts";

/** `amiss`: why some keys, or all, are not those that they should be. */
export type VaultKeys = KeyFile & { readonly amiss: readonly KeyStoreError[] };

export type VaultChange<Found> = {
  /** The keys that are changed; undefined if there are none, or if they are unusable and replaced. */
  readonly found: Found | undefined;
  /** The keys as they will be, with their new revision. */
  readonly set: KeySet;
  readonly changes: readonly KeyChange[];
  readonly pepper: Pepper;
  /** Whether no other key remains, and gateways take older keys, too. */
  readonly isRestore: boolean;
};

const TRIES = 5;

/**
 * The writable keys of operators: a file, or the store that gateways share. All methods reject with an error that
 * `isKeyStoreError` accepts.
 */
export abstract class KeyVault<Found extends VaultKeys = VaultKeys> {
  abstract readonly name: string;
  abstract readonly isFile: boolean;
  abstract readonly auditName: string;
  abstract readonly pepperFile: string;

  /** Resolves to the text of the audit log; undefined if there is none. */
  abstract readAudit(): Promise<string | undefined>;
  close(): void {}

  /** Finds the keys, or those with these ids and perhaps more; undefined if there are none, and never were. */
  protected abstract find(ids?: readonly string[]): Promise<Found | undefined>;
  /** Resolves to the newest revision that is known to have been in use, 0 for none. */
  protected abstract newestRevision(): Promise<number>;
  protected abstract lastLine(): Promise<string>;
  /** Writes keys and their lines in the log. Resolves to false if another change came first. */
  protected abstract write(change: VaultChange<Found>): Promise<boolean>;
  /** Runs a change, alone if changes need that. */
  protected abstract alone<T>(create: boolean, run: () => Promise<T>): Promise<T>;
  /** Reports a fault that forbids no change. */
  protected warn(_text: string): void {}

  /** Reads the keys, or those with these ids and perhaps more. The fault is `missing` if there are none. */
  async read(ids?: readonly string[]): Promise<Found> {
    const found = await this.find(ids);
    if (!found) throw this.#missing();
    return found;
  }

  /**
   * Changes keys and logs the change; nothing is written if `change` throws. The set that is changed has the records
   * with these ids, and may have more. With `create` a missing store and pepper are created.
   */
  async update<T>(create: boolean, ids: readonly string[], change: KeySetChanger<T>): Promise<T> {
    return await this.alone(create, async () => {
      for (let tries = 0; tries < TRIES; tries += 1) {
        const found = create ? await this.find(ids) : await this.read(ids);
        for (const error of found?.amiss ?? []) {
          // A change would make an old file the newest, and would sign a refused record.
          if (this.isFile || error.fault !== "revision_went_back") throw error;
          this.warn(error.message);
        }
        const pepper = found?.pepper ?? (await readPepper(this.pepperFile)) ?? (await makePepperFile(this.pepperFile));
        const before = found?.set ?? EMPTY_KEY_SET;
        const { set, value } = change(before, pepper);
        if (set === before) return value;
        // Without a file, revisions continue above the newest one that was in use.
        const revision = Math.max(before.revision, await this.newestRevision()) + 1;
        const changes = keyChanges(before, set);
        if (await this.write({ found, set: { ...set, revision }, changes, pepper, isRestore: false })) return value;
      }
      throw changedMeanwhile();
    });
  }

  /**
   * Puts keys in force that gateways would refuse because they are older: those of the file `from`, or those that are
   * here, without refused records. Their revision will be greater than `above`. Resolves to the keys.
   */
  async restore(from: string | undefined, above: number): Promise<KeySet> {
    return await this.alone(true, async () => {
      const given = from === undefined ? undefined : await readKeySet(from);
      const pepper = await readPepper(this.pepperFile);
      if (!pepper) throw missingPepper(this.pepperFile);
      const found = await this.find().catch((error: unknown) => {
        if (!given || !isKeyStoreError(error) || error.fault === "unreachable") throw error;
        return undefined;
      });
      const taken = given ?? found?.set ?? EMPTY_KEY_SET;
      if (taken.keys.length === 0) throw new KeyStoreError("empty", `${from ?? this.name} holds no keys`);
      assertPepperFits(this.pepperFile, pepper, taken);
      const last = lineCheck(pepper)(await this.lastLine());
      const older = [taken.revision, found?.set.revision ?? 0, last?.revision ?? 0, await this.newestRevision(), above];
      const set = { ...taken, revision: Math.max(...older) + 1 };
      const changes = [RESTORE, ...keyChanges(found?.set ?? taken, set)];
      if (!(await this.write({ found, set, changes, pepper, isRestore: true }))) throw changedMeanwhile();
      return set;
    });
  }

  #missing(): KeyStoreError {
    return new KeyStoreError(
      "missing",
      this.isFile ? `there is no key file at ${this.name}` : "there are no keys in the store",
    );
  }
}

export function missingPepper(file: string): KeyStoreError {
  return new KeyStoreError("pepper_missing", `${file} is missing; copy the one that the keys were made with`);
}
