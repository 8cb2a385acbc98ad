import { type ExecFileException, execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, expect, test } from "vitest";

/* The build step before the scripts of package.json, in an installation without a compiler. */

const BUILD = join(import.meta.dirname, "../../deploy/build.mjs");
const root = mkdtempSync(join(tmpdir(), "svc build-"));
afterEach(() => rmSync(root, { recursive: true, force: true }));

function build(...args: readonly string[]) {
  cpSync(BUILD, join(root, "deploy/build.mjs"));
  return promisify(execFile)(process.execPath, [join(root, "deploy/build.mjs"), ...args]).then(
    () => ({ code: 0, stderr: "" }),
    ({ code, stderr }: ExecFileException) => ({ code, stderr }),
  );
}

test("without a compiler, a dist/ built elsewhere is used", async () => {
  mkdirSync(join(root, "dist"), { recursive: true });
  expect(await build()).toEqual({ code: 0, stderr: "" });
});

test("without a compiler and without a dist/, the message explains how to get one", async () => {
  expect(await build()).toEqual({
    code: 1,
    stderr: expect.stringMatching(/^build: there is no dist\/ and no compiler/),
  });
});

test("it does nothing if the requested file exists", async () => {
  mkdirSync(root, { recursive: true });
  writeFileSync(join(root, "program.js"), "");
  expect(await build("--unless", "program.js")).toEqual({ code: 0, stderr: "" });
  expect(await build("--unless", "other.js")).toMatchObject({ code: 1 });
});
