import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { RedisState } from "../../state/redis-state.ts";
import type { RedisSettings } from "../../state/state-settings.ts";
import { readPepper } from "../key-file.ts";
import { isKeyId } from "../key-format.ts";
import type { KeySet } from "../key-record.ts";
import { isKeyStoreError, KeyStoreError } from "../key-store.ts";
import { KeyVault, missingPepper, type VaultChange, type VaultKeys } from "../key-vault.ts";
import { newestFileOf, readNewest } from "../newest-state.ts";
import { type Reading, SignedKeys } from "./signed-keys.ts";
import { StoredKeys } from "./stored-keys.ts";

/** Least time, in milliseconds, for which a command waits for an answer. */
const PATIENCE_MS = 5_000;

/** Opens the keys in the store that gateways share. `warn` receives faults that forbid no change. */
export async function openRedisKeyVault(
  settings: RedisSettings,
  pepperFile: string,
  warn: (text: string) => void,
): Promise<KeyVault> {
  const state = new RedisState({ settings, clock: systemClock, commandTimeoutMs: PATIENCE_MS });
  await state.connect();
  return new RedisKeyVault(state, pepperFile, warn);
}

type Found = VaultKeys & { readonly reading: Reading };

class RedisKeyVault extends KeyVault<Found> {
  readonly isFile = false;
  readonly name: string;
  readonly auditName: string;
  readonly pepperFile: string;
  protected override readonly warn: (text: string) => void;
  readonly #state: RedisState;
  readonly #stored: StoredKeys;

  constructor(state: RedisState, pepperFile: string, warn: (text: string) => void) {
    super();
    this.name = `the store of keys ${state.settings.keyPrefix}`;
    this.auditName = `the audit log of ${this.name}`;
    this.pepperFile = pepperFile;
    this.warn = warn;
    this.#state = state;
    this.#stored = new StoredKeys(state);
  }

  async readAudit(): Promise<string | undefined> {
    let text = "";
    for await (const line of this.#stored.lines()) text += `${line}\n`;
    return text || undefined;
  }

  override close(): void {
    this.#state.close();
  }

  protected async find(ids?: readonly string[]): Promise<Found | undefined> {
    const pepper = await readPepper(this.pepperFile);
    if (!pepper && (await this.#stored.head()) !== "") throw missingPepper(this.pepperFile);
    if (!pepper) return undefined;
    const keys = new SignedKeys(this.#state, pepper, this.pepperFile);
    const reading = await keys.read(ids);
    const loss = await keys.lossOf(reading?.head);
    if (!reading && loss) throw loss;
    if (!reading) return undefined;
    const { head, records, refused } = reading;
    const keysInOrder = [...records.values()].sort(
      (one, other) => one.created.localeCompare(other.created) || one.id.localeCompare(other.id),
    );
    const set: KeySet = { v: 1, revision: head.revision, auditHead: head.mac, keys: keysInOrder };
    const amiss = [...(refused.size > 0 ? [refusedError(refused)] : []), ...(loss ? [loss] : [])];
    return { reading, set, pepper, amiss };
  }

  protected async newestRevision(): Promise<number> {
    return (await readNewest(newestFileOf(this.pepperFile))).revision;
  }

  protected lastLine(): Promise<string> {
    return this.#stored.line(-1);
  }

  protected async write({ found, set, changes, pepper, isRestore }: VaultChange<Found>): Promise<boolean> {
    const keys = new SignedKeys(this.#state, pepper, this.pepperFile);
    const { revision } = set;
    const whole = isRestore ? { isWhole: true, restored: revision, mended: revision } : {};
    const head = await keys.change(found?.reading, { changes, keys: set.keys, revision, ...whole });
    if (!head) return false;
    await keys.noteInUse(head).catch((error: unknown) => {
      if (!isKeyStoreError(error)) throw error;
      this.warn(`${error.message}: an older store would not be noticed from here`);
    });
    const replicated = await this.#stored.replicated().catch(() => false);
    if (replicated === false)
      this.warn("no replica of the store has confirmed the change: a fail-over now would lose it");
    return true;
  }

  protected alone<T>(_create: boolean, run: () => Promise<T>): Promise<T> {
    return run();
  }
}

function refusedError(refused: ReadonlySet<string>): KeyStoreError {
  const ids = [...refused].filter(isKeyId).slice(0, 20).join(", ");
  return new KeyStoreError(
    "records_refused",
    `${refused.size} records are left out, as they are not as they were written (${ids}): 'keys restore' drops them`,
  );
}
