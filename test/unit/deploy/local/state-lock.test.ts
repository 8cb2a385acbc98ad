import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { stateFolder } from "../../../../deploy/local/state.ts";

const folder = mkdtempSync(join(tmpdir(), "svc-state-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("a state folder is created with its parents, for its owner only", async () => {
  const path = join(folder, "a/b/c");
  expect(await stateFolder(path)).toBe(path);
  expect(statSync(path).mode & 0o777).toBe(0o700);
  expect(await stateFolder(path)).toBe(path);
});

test("a folder that cannot be created is reported", async () => {
  writeFileSync(join(folder, "file"), "");
  await expect(stateFolder(join(folder, "file"))).rejects.toThrow("cannot be made (EEXIST)");
  await expect(stateFolder(join(folder, "file/below"))).rejects.toThrow("cannot be made (ENOTDIR)");
});

test("a folder of another user, or writable by one, is refused: it may hold a planted key or engine", async () => {
  const theirs = join(folder, "theirs");
  mkdirSync(theirs, { mode: 0o700 });
  const isRoot = process.getuid?.() === 0;
  if (isRoot) chownSync(theirs, 12_345, 12_345);
  // Only root can change the owner of a folder; other users find a folder of root.
  await expect(stateFolder(isRoot ? theirs : "/")).rejects.toThrow("belongs to another user");
  const open = join(folder, "open");
  mkdirSync(open);
  chmodSync(open, 0o770);
  await expect(stateFolder(open)).rejects.toThrow("is writable by other users");
});

// Node's recursive mkdir never ends there.
test.skipIf(process.platform !== "linux")("one on a file system that takes no folders ends in an error", async () => {
  await expect(stateFolder("/proc/svc-state/x")).rejects.toThrow("cannot be made (ENOENT)");
});
