import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { lockState, withFileLock } from "../../../../../deploy/runtime/files/file-lock.ts";

let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-file-lock-"));
  path = join(folder, "lock");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

const patient = new AbortController().signal;

async function deadProcessId(): Promise<number> {
  const child = spawn(process.execPath, ["--eval", ""]);
  await once(child, "exit");
  if (child.pid === undefined) throw new Error("no process was started");
  return child.pid;
}

test("names its owner while it is held, and is gone after the work or its failure", async () => {
  const seen = await withFileLock(path, () => readFile(path, "utf8"), patient);
  expect(seen.split(" ").slice(0, 2)).toEqual([String(process.pid), hostname()]);
  await expect(withFileLock(path, () => Promise.reject(new Error("inside")), patient)).rejects.toThrow("inside");
  expect(await readdir(folder)).toEqual([]);
});

test("a file lock lets one in at a time", async () => {
  let inside = 0;
  let most = 0;
  const work = async () => {
    inside += 1;
    most = Math.max(most, inside);
    await readdir(folder);
    inside -= 1;
  };
  await Promise.all(Array.from({ length: 8 }, () => withFileLock(path, work, patient)));
  expect(most).toBe(1);
});

test("gives up when the signal aborts, and does not touch the other lock", async () => {
  await withFileLock(
    path,
    async () => {
      const second = withFileLock(path, () => Promise.resolve(), AbortSignal.abort());
      await expect(second).rejects.toMatchObject({ fault: "locked" });
      expect(await readdir(folder)).toEqual(["lock"]);
    },
    patient,
  );
});

test("takes over from a process that is gone", async () => {
  await writeFile(path, `${await deadProcessId()} ${hostname()} abc\n`);
  await expect(withFileLock(path, () => Promise.resolve("done"), patient)).resolves.toBe("done");
  expect(await readdir(folder)).toEqual([]);
});

test("a file lock does not take over from the one that has taken over before", async () => {
  const dead = await deadProcessId();
  await writeFile(path, `${dead} ${hostname()} abc\n`);
  const kill = vi.spyOn(process, "kill");
  kill.mockImplementationOnce((pid, signal) => {
    // Another process is faster between the check of the lock and its removal.
    rmSync(path);
    writeFileSync(path, `${process.pid} ${hostname()} other\n`);
    kill.mockRestore();
    return process.kill(pid, signal);
  });
  const leave = new AbortController();
  const locked = withFileLock(path, () => Promise.resolve(), leave.signal);
  let stolen = false;
  // A third one tries all the time.
  for (let tries = 0; tries < 2_000 && !stolen; tries += 1) {
    await setImmediate();
    stolen = !existsSync(path);
  }
  leave.abort();
  await expect(locked).rejects.toMatchObject({ fault: "locked" });
  expect(stolen).toBe(false);
  expect(await readFile(path, "utf8")).toContain("other");
  expect(await readdir(folder)).toEqual(["lock"]);
});

test("takes over although the one that was doing so was killed", async () => {
  const dead = `${await deadProcessId()} ${hostname()} abc\n`;
  await writeFile(path, dead);
  await writeFile(`${path}.stale`, dead);
  await expect(withFileLock(path, () => Promise.resolve("done"), patient)).resolves.toBe("done");
  expect(await readdir(folder)).toEqual([]);
});

test.each([
  ["another host's", async () => `${await deadProcessId()} not-${hostname()} abc\n`],
  ["a half-written", async () => ""],
  ["an unreadable", async () => "someone else"],
])("does not take over %s lock", async (_, content) => {
  await writeFile(path, await content());
  const refused = withFileLock(path, () => Promise.resolve(), AbortSignal.abort());
  await expect(refused).rejects.toMatchObject({ fault: "locked" });
  expect(await readdir(folder)).toEqual(["lock"]);
});

test("takes over an empty lock that a full disk left behind, but not one that was just made", async () => {
  await writeFile(path, "");
  expect(await lockState(path)).toBe("held");
  await expect(withFileLock(path, () => Promise.resolve(), AbortSignal.abort())).rejects.toMatchObject({
    fault: "locked",
  });
  const before = new Date(Date.now() - 60_000);
  await utimes(path, before, before);
  expect(await lockState(path)).toBe("stale");
  expect(await withFileLock(path, () => Promise.resolve("in"), patient)).toBe("in");
  expect(await readdir(folder)).toEqual([]);
});
