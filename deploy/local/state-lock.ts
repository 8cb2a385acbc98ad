import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { errnoOf } from "../runtime/files/errno.ts";
import { FileError } from "../runtime/files/file-error.ts";
import { withFileLock } from "../runtime/files/file-lock.ts";

/** Enough to take over the lock of a start that was killed; not meant to wait for one that runs. */
const TAKE_OVER_MS = 250;

/** The state folder cannot be had; the message says why, and what to do where another start runs on it. */
export class StateFolderError extends Error {
  override readonly name = "StateFolderError";
}

/** Makes the state folder where it is missing; resolves to its absolute path. Throws `StateFolderError`. */
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
 * Runs `run` as the only start on the folder, which has to be there. Throws `StateFolderError` before `run` when another one
 * has it, and whatever `run` throws. The lock of a process that was killed is taken over.
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
