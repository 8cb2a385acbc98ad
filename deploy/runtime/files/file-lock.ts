import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { copyFile, readFile, rename, rm, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { errnoOf } from "./errno.ts";
import { FileError } from "./file-error.ts";

/** The time, in milliseconds, until a lock that another process holds is tried again. */
const RETRY_MS = 25;

type Owner = { readonly pid: number; readonly host: string };

async function readLock(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

function parseOwner(text: string): Owner | undefined {
  const [pid, host] = text.trim().split(" ");
  return pid !== undefined && host !== undefined && /^[1-9][0-9]{0,9}$/.test(pid)
    ? { pid: Number(pid), host }
    : undefined;
}

/** Returns whether the owner of a lock is surely gone: only of a process of this host that can be known. */
function isGone(owner: Owner): boolean {
  if (owner.host !== hostname()) return false;
  try {
    process.kill(owner.pid, 0);
    return false;
  } catch (error) {
    return errnoOf(error) === "ESRCH";
  }
}

/**
 * Resolves to who holds the lock file `path`: nobody, a process, or one that is gone (`stale`), whose lock the next one
 * takes over.
 */
export async function lockState(path: string): Promise<"free" | "held" | "stale"> {
  const text = await readLock(path);
  if (text === undefined) return "free";
  const owner = parseOwner(text);
  return owner !== undefined && isGone(owner) ? "stale" : "held";
}

/** Takes away a lock whose owner died, and gives it back when it turns out to be another's that came in between. */
async function removeStale(path: string, seen: string): Promise<void> {
  const aside = `${path}.${randomBytes(6).toString("hex")}`;
  try {
    await rename(path, aside);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return;
    throw error;
  }
  try {
    if ((await readLock(aside)) !== seen) await copyFile(aside, path, constants.COPYFILE_EXCL);
  } finally {
    await rm(aside, { force: true });
  }
}

async function tryLock(path: string, mine: string): Promise<boolean> {
  try {
    await writeFile(path, mine, { flag: "wx", mode: 0o600 });
    return true;
  } catch (error) {
    if (errnoOf(error) !== "EEXIST") throw error;
  }
  const seen = await readLock(path);
  const owner = seen === undefined ? undefined : parseOwner(seen);
  if (seen !== undefined && owner !== undefined && isGone(owner)) await removeStale(path, seen);
  return false;
}

async function lock(path: string, mine: string, signal: AbortSignal): Promise<void> {
  try {
    while (!(await tryLock(path, mine))) {
      if (signal.aborted) {
        const hint = "if none is at work there, remove that file";
        throw new FileError("locked", `${path} is held by another process; ${hint}`);
      }
      await sleep(RETRY_MS, undefined, { signal }).catch(() => {});
    }
  } catch (error) {
    if (error instanceof FileError) throw error;
    throw new FileError("unwritable", `${path} cannot be written (${errnoOf(error)})`, { cause: error });
  }
}

/**
 * Runs `run` while nobody else runs something under the same lock file `path`. A lock left behind by a process of this
 * host that is gone is taken over. Throws `FileError`: `locked` when `signal` aborts before the lock is had,
 * `unwritable` when the lock file cannot be made; and whatever `run` throws.
 */
export async function withFileLock<T>(path: string, run: () => Promise<T>, signal: AbortSignal): Promise<T> {
  // The random part tells two owners of one process id apart, should the id have been given out anew.
  const mine = `${process.pid} ${hostname()} ${randomBytes(6).toString("hex")}\n`;
  await lock(path, mine, signal);
  try {
    return await run();
  } finally {
    if ((await readLock(path)) === mine) await rm(path, { force: true });
  }
}
