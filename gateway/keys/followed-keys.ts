import { sleep } from "../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { Pepper } from "./key-digest.ts";
import { KeyTable } from "./key-index.ts";
import type { KeyStore, KeyStoreStatus } from "./key-store.ts";
import type { Principal } from "./principal.ts";

const CLOSE_MS = 1_000;

/** The records in use of a store that is followed, and the listeners of its changes. */
export abstract class FollowedKeys implements KeyStore {
  protected readonly clock: Clock;
  protected table: KeyTable;
  protected revision = 0;
  protected loadedAtMs = 0;
  protected loadErrors = 0;
  protected wentBack = 0;
  protected readonly end = new AbortController();
  protected noting: Promise<void> | undefined;
  readonly #listeners = new Set<(status: KeyStoreStatus) => void>();

  protected constructor(clock: Clock, pepper: Pepper | undefined) {
    this.clock = clock;
    this.table = new KeyTable(pepper);
  }

  protected abstract get fault(): KeyStoreStatus["fault"];

  protected get refusedIds(): readonly string[] {
    return [];
  }

  find(presented: string): Principal | undefined {
    const found = this.table.look(presented, this.clock.wallMs());
    return "principal" in found ? found.principal : undefined;
  }

  byId(keyId: string): Principal | undefined {
    return this.table.byId(keyId);
  }

  inForce(keyId: string): Principal | undefined {
    return this.table.inForce(keyId, this.clock.wallMs());
  }

  mustEnd(keyId: string): boolean {
    return this.table.mustEnd(keyId);
  }

  status(): KeyStoreStatus {
    const counts = { active: 0, disabled: 0, revoked: 0 };
    for (const { status } of this.table.records()) counts[status] += 1;
    const { revision, loadedAtMs, loadErrors, fault, refusedIds: refused, wentBack } = this;
    const keys = counts.active + counts.disabled + counts.revoked;
    return { keys, counts, revision, loadedAtMs, loadErrors, fault, refused, wentBack };
  }

  onChange(listener: (status: KeyStoreStatus) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Stops following the store and removes all listeners. Resolves when the state in use is recorded, or after a second,
   * because a file system may hang.
   */
  async close(): Promise<void> {
    this.end.abort();
    this.#listeners.clear();
    if (!this.noting) return;
    const noted = new AbortController();
    await Promise.race([this.noting.catch(() => {}), sleep(this.clock, CLOSE_MS, noted.signal)]);
    noted.abort();
  }

  protected report(): void {
    if (this.end.signal.aborted || this.#listeners.size === 0) return;
    const status = this.status();
    for (const listener of this.#listeners) listener(status);
  }
}
