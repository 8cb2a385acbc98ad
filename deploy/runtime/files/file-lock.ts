import { randomBytes } from "node:crypto";
import { open, readFile, rm, stat } from "node:fs/promises";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { errnoOf } from "./errno.ts";
import { FileError } from "./file-error.ts";

/** The time, in milliseconds, until a lock that another process holds is tried again. */
const RETRY_MS = 25;

/**
 * The age, in milliseconds, from which an empty lock is nobody's: its owner makes the file and writes its name into it
 * in the next moment, unless it was killed in between or the disk was full.
 */
const NAMELESS_MS = 10_000;

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

/** Returns whether the lock, whose text is `text`, belongs to a process that is gone, or to nobody for a while. */
async function isStale(path: string, text: string): Promise<boolean> {
  const owner = parseOwner(text);
  if (owner !== undefined) return isGone(owner);
  const found = await stat(path).catch(() => undefined);
  return text.trim() === "" && found !== undefined && Date.now() - found.mtimeMs > NAMELESS_MS;
}

/**
 * Resolves to who holds the lock file `path`: nobody, a process, or one that is gone (`stale`), whose lock the next one
 * takes over.
 */
export async function lockState(path: string): Promise<"free" | "held" | "stale"> {
  const text = await readLock(path);
  if (text === undefined) return "free";
  return (await isStale(path, text)) ? "stale" : "held";
}

/**
 * Removes a lock whose owner is gone. Processes do so one at a time, under a lock of its own, and look again before: a
 * process that was late would otherwise remove the lock of the one that had taken over.
 */
async function removeStale(path: string, mine: string): Promise<void> {
  const guard = `${path}.stale`;
  if (!(await makeLock(guard, mine))) {
    const other = await readLock(guard);
    // Its owner was killed between the two lines below.
    if (other !== undefined && (await isStale(guard, other))) await rm(guard, { force: true });
    return;
  }
  try {
    if ((await lockState(path)) === "stale") await rm(path, { force: true });
  } finally {
    await rm(guard, { force: true });
  }
}

async function tryLock(path: string, mine: string): Promise<boolean> {
  if (await makeLock(path, mine)) return true;
  if ((await lockState(path)) === "stale") await removeStale(path, mine);
  return false;
}

/** Makes the lock file with its text, and resolves to whether there was none. A full disk leaves none behind. */
async function makeLock(path: string, text: string): Promise<boolean> {
  const handle = await open(path, "wx", 0o600).catch((error: unknown) => {
    if (errnoOf(error) !== "EEXIST") throw error;
  });
  if (!handle) return false;
  try {
    await handle.writeFile(text);
    return true;
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
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
