import { randomBytes } from "node:crypto";
import { open, readFile, rm, stat } from "node:fs/promises";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { errnoOf, FileError } from "./private-file.ts";

const RETRY_MS = 25;

/** Age, in milliseconds, from which an empty lock file is stale: its owner was killed, or the disk was full. */
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

/** Whether the owner of a lock has certainly exited: known for processes of this host only. */
function isGone(owner: Owner): boolean {
  if (owner.host !== hostname()) return false;
  try {
    process.kill(owner.pid, 0);
    return false;
  } catch (error) {
    return errnoOf(error) === "ESRCH";
  }
}

/** Returns whether the lock with the text `text` belongs to an exited process, or has had no owner for a while. */
async function isStale(path: string, text: string): Promise<boolean> {
  const owner = parseOwner(text);
  if (owner !== undefined) return isGone(owner);
  const found = await stat(path).catch(() => undefined);
  return text.trim() === "" && found !== undefined && Date.now() - found.mtimeMs > NAMELESS_MS;
}

/** `stale`: held by an exited process, and taken over by the next one. */
export async function lockState(path: string): Promise<"free" | "held" | "stale"> {
  const text = await readLock(path);
  if (text === undefined) return "free";
  return (await isStale(path, text)) ? "stale" : "held";
}

/**
 * Removes a stale lock. Processes do so one at a time, under a separate lock, and check again before: a late process
 * would otherwise remove the lock of the one that has taken over.
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

/** Creates the lock file with its text, and resolves to whether there was none. A full disk leaves no file behind. */
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
 * Runs `run` under the exclusive lock file `path`. A stale lock of a process of this host is taken over. Throws
 * `FileError`: `locked` if `signal` aborts before the lock is acquired, `unwritable` if the lock file cannot be
 * created; and the errors of `run`.
 */
export async function withFileLock<T>(path: string, run: () => Promise<T>, signal: AbortSignal): Promise<T> {
  // The random part distinguishes two owners with the same process id, which may be reused.
  const mine = `${process.pid} ${hostname()} ${randomBytes(6).toString("hex")}\n`;
  await lock(path, mine, signal);
  try {
    return await run();
  } finally {
    if ((await readLock(path)) === mine) await rm(path, { force: true });
  }
}
