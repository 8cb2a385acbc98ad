import { lstat, mkdir, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { withFileLock } from "../runtime/files/file-lock.ts";
import { errnoOf, FileError } from "../runtime/files/private-file.ts";

/**
 * Milliseconds for which the lock is tried: enough to take over that of a killed start, and not a wait for a running
 * one.
 */
const TAKE_OVER_MS = 250;

/** The state folder is unusable; the message has the reason and, if another start uses it, the remedy. */
export class StateFolderError extends Error {
  override readonly name = "StateFolderError";
}

/**
 * Mode bits that let other users write. They may only list a folder that holds secrets and the configuration of
 * programs.
 */
const WRITABLE_BY_OTHERS = 0o022;

/**
 * Creates the state folder if it is missing; resolves to its absolute path. Throws `StateFolderError` if it cannot be
 * created, or if another user could have prepared it with a known sealing key, or with other engines.
 */
export async function stateFolder(stateDir: string): Promise<string> {
  const folder = resolve(stateDir);
  try {
    await makeFolder(folder);
    const { uid, mode } = await lstat(folder);
    // Only on systems with owners and modes.
    const us = process.getuid?.();
    if (us !== undefined && uid !== us) throw new StateFolderError(`--state-dir: ${folder} belongs to another user`);
    if (us !== undefined && (mode & WRITABLE_BY_OTHERS) !== 0)
      throw new StateFolderError(`--state-dir: ${folder} is writable by other users; its mode should be 0700`);
  } catch (cause) {
    if (cause instanceof StateFolderError) throw cause;
    throw new StateFolderError(`--state-dir: ${folder} cannot be made (${errnoOf(cause)})`, { cause });
  }
  return folder;
}

/**
 * Creates a folder and its missing parents. Node's own recursive mkdir never ends on a file system that accepts no
 * folders and reports the parent as missing, such as `/proc`.
 */
async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { mode: 0o700 });
  } catch (cause) {
    const errno = errnoOf(cause);
    if (errno === "EEXIST" && (await stat(folder)).isDirectory()) return;
    if (errno !== "ENOENT" || dirname(folder) === folder) throw cause;
    await makeFolder(dirname(folder));
    await mkdir(folder, { mode: 0o700 });
  }
}

/**
 * Runs `run` as the only start in `folder`, which must exist. Throws `StateFolderError` before `run` if another start
 * uses the folder, and the errors of `run`. The lock of a killed process is taken over.
 */
export async function ownState<T>(folder: string, run: () => Promise<T>): Promise<T> {
  const file = join(folder, "start.lock");
  let owned = false;
  const begin = () => {
    owned = true;
    return run();
  };
  try {
    return await withFileLock(file, begin, AbortSignal.timeout(TAKE_OVER_MS));
  } catch (error) {
    if (owned || !(error instanceof FileError) || error.fault !== "locked") throw error;
    const hint = `stop it or choose another --state-dir; if none runs, remove ${file}`;
    throw new StateFolderError(`--state-dir: another start uses ${folder}; ${hint}`, { cause: error });
  }
}
