import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readPrivateFile, writePrivateFile } from "../../../../../deploy/runtime/files/private-file.ts";

let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-private-file-"));
  path = join(folder, "file");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

const modeOf = async (file: string) => (await stat(file)).mode & 0o777;

describe("writePrivateFile", () => {
  test("makes a file for its owner only and leaves nothing else behind", async () => {
    await writePrivateFile(path, "one");
    expect(await readFile(path, "utf8")).toBe("one");
    expect(await modeOf(path)).toBe(0o600);
    expect(await readdir(folder)).toEqual(["file"]);
  });

  test("puts another file in place of the old one", async () => {
    await writePrivateFile(path, "one");
    const before = await stat(path);
    await writePrivateFile(path, "two");
    expect(await readFile(path, "utf8")).toBe("two");
    expect((await stat(path)).ino).not.toBe(before.ino);
  });

  test.each([
    [0o640, 0o640],
    [0o666, 0o640],
    [0o644, 0o640],
    [0o604, 0o600],
  ])("takes from mode %o what others may not do: %o", async (before, after) => {
    await writeFile(path, "one");
    await chmod(path, before);
    await writePrivateFile(path, "two");
    expect(await modeOf(path)).toBe(after);
  });

  test("says that it cannot write, and takes its own file away", async () => {
    await mkdir(path);
    await expect(writePrivateFile(path, "one")).rejects.toMatchObject({ fault: "unwritable" });
    expect(await readdir(folder)).toEqual(["file"]);
  });
});

describe("readPrivateFile", () => {
  test("reads what was written, and nothing where there is no file", async () => {
    expect(await readPrivateFile(path)).toBeUndefined();
    await writePrivateFile(path, Buffer.from([0, 255]));
    expect(await readPrivateFile(path)).toEqual(Buffer.from([0, 255]));
  });

  test.each([0o644, 0o660, 0o602, 0o601])("refuses a file of mode %o", async (mode) => {
    await writeFile(path, "one");
    await chmod(path, mode);
    await expect(readPrivateFile(path)).rejects.toMatchObject({ fault: "permissions" });
  });

  test.each([0o600, 0o400, 0o440, 0o640])("takes a file of mode %o", async (mode) => {
    await writeFile(path, "one");
    await chmod(path, mode);
    expect(await readPrivateFile(path)).toEqual(Buffer.from("one"));
  });

  test("says that it cannot read", async () => {
    await mkdir(path, { mode: 0o700 });
    await expect(readPrivateFile(path)).rejects.toMatchObject({ fault: "unreadable" });
  });
});
