import { randomBytes } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats } from "node:fs";
import { type FileHandle, lstat, open, readdir, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/*
 * Files that only their owner may change. Reading refuses a file that another user could have written or that every
 * user can read; writing replaces the file atomically, so that a reader sees the old text or the new one, never a part.
 */

const OWNER_ONLY = 0o600;
/** Forbidden mode bits of a secret: the group may read, because containers mount secrets this way. */
const FORBIDDEN_BITS = 0o027;

/** Flags for reading: opening a pipe without a writer must not block. */
const READ = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

function assertPrivate(path: string, stats: Stats): void {
  if (!stats.isFile()) throw new FileError("unreadable", `${path} is no regular file`);
  const uid = process.getuid?.();
  if (uid === undefined) return; // a system without owners and modes
  if ((stats.mode & FORBIDDEN_BITS) !== 0)
    throw new FileError(
      "permissions",
      `${path} is open to other users; its mode should be 0600, or 0440 for a mounted secret`,
    );
  if (uid !== 0 && stats.uid !== uid && stats.uid !== 0)
    throw new FileError("permissions", `${path} belongs to another user`);
}

/**
 * Reads the file `path`; undefined if there is none. Throws `FileError`: `permissions` for a file that other users can
 * write or every user can read, `unreadable` otherwise.
 */
export async function readPrivateFile(path: string): Promise<Buffer | undefined> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(path, READ);
    assertPrivate(path, await handle.stat());
    return await handle.readFile();
  } catch (error) {
    return missingOrFault(path, error);
  } finally {
    await handle?.close();
  }
}

export function readPrivateFileSync(path: string): Buffer | undefined {
  let opened: number | undefined;
  try {
    opened = openSync(path, READ);
    assertPrivate(path, fstatSync(opened));
    return readFileSync(opened);
  } catch (error) {
    return missingOrFault(path, error);
  } finally {
    if (opened !== undefined) closeSync(opened);
  }
}

function missingOrFault(path: string, error: unknown): undefined {
  if (errnoOf(error) !== "ENOENT") throw fault(path, error);
}

function fault(path: string, error: unknown): FileError {
  if (error instanceof FileError) return error;
  return new FileError("unreadable", `${path} cannot be read (${errnoOf(error)})`, { cause: error });
}

/** Waits until the folder is on disk: a power failure may otherwise undo the rename. */
async function syncFolder(path: string): Promise<void> {
  if (process.platform === "win32") return; // folders cannot be opened there
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** Checks the file itself, not the target of a link, which has another owner. */
async function fileInPlace(path: string): Promise<Stats | undefined> {
  try {
    const found = await lstat(path);
    return found.isSymbolicLink() ? undefined : found;
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

/**
 * Resolves to the paths of the files that `writePrivateFile` has begun for `path` and not renamed: if no process writes
 * `path` now, those of killed processes.
 */
export async function unfinishedWrites(path: string): Promise<readonly string[]> {
  const begin = `${basename(path)}.`;
  const names = await readdir(dirname(path)).catch((): string[] => []);
  return names
    .filter((name) => name.startsWith(begin) && /^\d+\.[0-9a-f]{12}\.tmp$/.test(name.slice(begin.length)))
    .map((name) => join(dirname(path), name));
}

/**
 * Writes the file `path` atomically, so that a reader sees the old content or the new, and waits until it is on disk. A
 * new file has mode 0600; an existing one keeps its owner, and read access of its group. Throws `FileError`
 * `unwritable`; the old file is still in place then.
 */
export async function writePrivateFile(path: string, content: string | Buffer): Promise<void> {
  const temporary = `${path}.${process.pid}.${randomBytes(6).toString("hex")}.tmp`;
  try {
    const old = await fileInPlace(path);
    const handle = await open(temporary, "wx", OWNER_ONLY);
    try {
      await handle.writeFile(content);
      if (old !== undefined) {
        await handle.chmod(OWNER_ONLY | (old.mode & 0o040));
        if (process.getuid?.() === 0) await handle.chown(old.uid, old.gid);
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, path);
    await syncFolder(dirname(path));
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {});
    throw new FileError("unwritable", `${path} cannot be written (${errnoOf(error)})`, { cause: error });
  }
}

/** `permissions`: other users could read or change the file; `locked`: another process holds its lock. */
export type FileFault = "permissions" | "unreadable" | "unwritable" | "locked";

/** An unusable file. The message names the file and never quotes its contents. */
export class FileError extends Error {
  override readonly name = "FileError";
  readonly fault: FileFault;

  constructor(fault: FileFault, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, options);
    this.fault = fault;
  }
}

/** Returns the system's code of an error, such as `EACCES`; "" if it has none. */
export function errnoOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}
