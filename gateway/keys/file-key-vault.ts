import { mkdir, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { withFileLock } from "../../deploy/runtime/files/file-lock.ts";
import { readPrivateFile, writePrivateFile } from "../../deploy/runtime/files/private-file.ts";
import { systemClock } from "../../deploy/runtime/time/clock.ts";
import { appendAudit, auditFileOf, lineCheck } from "./audit-log.ts";
import { keySetText, olderFile, pepperFileOf, readKeyFile, unfinishedKeyWrites } from "./key-file.ts";
import { KeyStoreError } from "./key-store.ts";
import { KeyVault, type VaultChange, type VaultKeys } from "./key-vault.ts";
import { readNewest, seenFileOf } from "./newest-state.ts";

/** Milliseconds that a change waits for another one to finish. */
const LOCK_WAIT_MS = 5_000;

/**
 * Keys in a file, which is changed under its lock, `<file>.lock`. A change rejects with the fault `locked` if the signal
 * aborts, by default after 5 s, while another process holds the lock.
 */
export class FileKeyVault extends KeyVault {
  readonly isFile = true;
  readonly name: string;
  readonly auditName: string;
  readonly pepperFile: string;
  readonly #signal: AbortSignal | undefined;

  constructor(file: string, signal?: AbortSignal) {
    super();
    this.name = file;
    this.auditName = auditFileOf(file);
    this.pepperFile = pepperFileOf(file);
    this.#signal = signal;
  }

  async readAudit(): Promise<string | undefined> {
    return (await readPrivateFile(this.auditName))?.toString("utf8");
  }

  protected async find(): Promise<VaultKeys | undefined> {
    const found = await readKeyFile(this.name);
    const older = found && olderFile(this.name, found.set.revision, await this.newestRevision());
    return found && { ...found, amiss: older ? [older] : [] };
  }

  protected async newestRevision(): Promise<number> {
    return (await readNewest(seenFileOf(this.name))).revision;
  }

  protected async lastLine(): Promise<string> {
    return (await this.readAudit())?.trimEnd().split("\n").at(-1) ?? "";
  }

  protected async write({ found, set, changes, pepper, isRestore }: VaultChange<VaultKeys>): Promise<boolean> {
    const last = isRestore ? lineCheck(pepper)(await this.lastLine()) : undefined;
    // The log comes first, and a failure ends the change: no key changes without an audit line.
    const auditHead = await appendAudit(this.auditName, {
      ...{ changes, pepper, revision: set.revision, wallMs: systemClock.wallMs() },
      head: last?.mac ?? found?.set.auditHead,
    });
    await writePrivateFile(this.name, keySetText({ ...set, ...(auditHead !== undefined && { auditHead }) }));
    return true;
  }

  protected async alone<T>(create: boolean, run: () => Promise<T>): Promise<T> {
    if (create)
      await mkdir(dirname(this.name), { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
        throw new KeyStoreError("unwritable", `${dirname(this.name)} cannot be made`, { cause });
      });
    // Without the file there may be no folder for its lock.
    else if ((await readPrivateFile(this.name)) === undefined) await this.read();
    const locked = async () => {
      for (const left of await unfinishedKeyWrites(this.name)) await rm(left, { force: true }).catch(() => {});
      return await run();
    };
    return await withFileLock(`${this.name}.lock`, locked, this.#signal ?? AbortSignal.timeout(LOCK_WAIT_MS));
  }
}
