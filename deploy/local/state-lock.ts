import { lstat, mkdir, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { errnoOf } from "../runtime/files/errno.ts";
import { FileError } from "../runtime/files/file-error.ts";
import { withFileLock } from "../runtime/files/file-lock.ts";

/**
 * The milliseconds that the lock is tried for: enough to take over that of a start which was killed, and not meant to
 * wait for one that runs.
 */
const TAKE_OVER_MS = 250;

/**
 * The error for a state folder that cannot be had; its message says why, and what to do where another start runs on it.
 */
export class StateFolderError extends Error {
  override readonly name = "StateFolderError";
}

/**
 * The bits of a mode that let others write. They may do nothing to a folder that holds secrets and says which programs
 * run, but look at the names in it.
 */
const WRITABLE_BY_OTHERS = 0o022;

/**
 * Makes the state folder where it is missing; resolves to its absolute path. Throws `StateFolderError` for one that
 * cannot be made, and for one that somebody else could have prepared: with a sealing key that they know, or engines of
 * their choice.
 */
export async function stateFolder(stateDir: string): Promise<string> {
  const folder = resolve(stateDir);
  try {
    await makeFolder(folder);
    const { uid, mode } = await lstat(folder);
    // Elsewhere than on systems with owners and modes there is nothing to see.
    const us = process.getuid?.();
    if (us !== undefined && uid !== us) throw new StateFolderError(`--state-dir: ${folder} belongs to another user`);
    if (us !== undefined && (mode & WRITABLE_BY_OTHERS) !== 0)
      throw new StateFolderError(`--state-dir: ${folder} can be written by other users; its mode should be 0700`);
  } catch (cause) {
    if (cause instanceof StateFolderError) throw cause;
    throw new StateFolderError(`--state-dir: ${folder} cannot be made (${errnoOf(cause)})`, { cause });
  }
  return folder;
}

/**
 * Makes a folder and those above it that are missing. Node's own way to do that never ends where a file system takes no
 * folders and says that the one above is missing, as `/proc` does.
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
 * Runs `run` as the only start on `folder`, which has to be there. Throws `StateFolderError` before `run` when another
 * start has the folder, and whatever `run` throws. The lock of a process that was killed is taken over.
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
