import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  readPrivateFile,
  readPrivateFileSync,
  writePrivateFile,
} from "../../../../../deploy/runtime/files/private-file.ts";

let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-private-file-"));
  path = join(folder, "file");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

const modeOf = async (file: string) => (await stat(file)).mode & 0o777;

describe("writePrivateFile", () => {
  test("writePrivateFile makes a file for its owner only and leaves nothing else behind", async () => {
    await writePrivateFile(path, "one");
    expect(await readFile(path, "utf8")).toBe("one");
    expect(await modeOf(path)).toBe(0o600);
    expect(await readdir(folder)).toEqual(["file"]);
  });

  test.each([
    [0o640, 0o640],
    [0o666, 0o640],
    [0o644, 0o640],
    [0o604, 0o600],
  ])("writePrivateFile removes forbidden bits of other users from mode %o: %o", async (before, after) => {
    await writeFile(path, "one");
    await chmod(path, before);
    await writePrivateFile(path, "two");
    expect(await modeOf(path)).toBe(after);
  });

  test("writePrivateFile replaces a link by a file, and does not change its target", async () => {
    const other = join(folder, "other");
    await writeFile(other, "theirs");
    await chmod(other, 0o644);
    await symlink(other, path);
    await writePrivateFile(path, "ours");
    expect([await readFile(path, "utf8"), await readFile(other, "utf8")]).toEqual(["ours", "theirs"]);
    expect(await modeOf(path)).toBe(0o600);
  });

  test("writePrivateFile reports a failed write, and removes its temporary file", async () => {
    await mkdir(path);
    await expect(writePrivateFile(path, "one")).rejects.toMatchObject({ fault: "unwritable" });
    expect(await readdir(folder)).toEqual(["file"]);
  });
});

describe.each([
  ["readPrivateFile", readPrivateFile],
  ["readPrivateFileSync", async (file: string) => readPrivateFileSync(file)],
])("%s", (_name, readPrivate) => {
  test("reads the written bytes, and undefined without a file", async () => {
    expect(await readPrivate(path)).toBeUndefined();
    await writePrivateFile(path, Buffer.from([0, 255]));
    expect(await readPrivate(path)).toEqual(Buffer.from([0, 255]));
  });

  test.each([0o644, 0o660, 0o602, 0o601])("a private file of mode %o is refused", async (mode) => {
    await writeFile(path, "one");
    await chmod(path, mode);
    await expect(readPrivate(path)).rejects.toMatchObject({ fault: "permissions" });
  });

  test.each([0o600, 0o400, 0o440, 0o640])("takes a file of mode %o", async (mode) => {
    await writeFile(path, "one");
    await chmod(path, mode);
    expect(await readPrivate(path)).toEqual(Buffer.from("one"));
  });

  test("a private file of another user is refused, even if group-readable, and one of the system accepted", async () => {
    const [ours, theirs] = [4_242, process.getuid?.() || 4_343];
    await writeFile(path, "one");
    await chmod(path, 0o440);
    const isRoot = process.getuid?.() === 0;
    // Only root can change the owner of a file; for other users the file of root is foreign.
    if (isRoot) await chown(path, theirs, -1);
    const getuid = vi.spyOn(process, "getuid").mockReturnValue(ours);
    try {
      await expect(readPrivate(path)).rejects.toMatchObject({ fault: "permissions" });
      await expect(readPrivate(path)).rejects.toThrow("belongs to another user");
      if (isRoot) await chown(path, 0, -1);
      else getuid.mockReturnValue(theirs);
      expect(await readPrivate(path)).toEqual(Buffer.from("one"));
    } finally {
      getuid.mockRestore();
    }
  });

  test("readPrivateFile reports a failed read", async () => {
    await mkdir(path, { mode: 0o700 });
    await expect(readPrivate(path)).rejects.toMatchObject({ fault: "unreadable" });
  });
});
