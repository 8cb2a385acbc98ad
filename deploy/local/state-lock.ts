import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
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
 * Makes the state folder where it is missing, and resolves to its absolute path. Throws `StateFolderError` when it
 * cannot be made.
 */
export async function stateFolder(stateDir: string): Promise<string> {
  const folder = resolve(stateDir);
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw new StateFolderError(`--state-dir: ${folder} cannot be made (${errnoOf(cause)})`, { cause });
  }
  return folder;
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
