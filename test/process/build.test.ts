import { type ExecFileException, execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, expect, test } from "vitest";

/* The build step before the scripts of package.json: in an installation without a compiler, and under other Nodes. */

const DEPLOY = join(import.meta.dirname, "../../deploy");
const PACKAGE = join(import.meta.dirname, "../../package.json");
const root = mkdtempSync(join(tmpdir(), "svc build-"));
afterEach(() => rmSync(root, { recursive: true, force: true }));

const build = (...args: readonly string[]) => buildUnder(process.versions.node, ...args);

function buildUnder(version: string, ...args: readonly string[]) {
  for (const file of ["build.mjs", "node-door.mjs"]) cpSync(join(DEPLOY, file), join(root, "deploy", file));
  cpSync(PACKAGE, join(root, "package.json"));
  const other = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } })`;
  writeFileSync(join(root, "other-node.cjs"), other);
  const preloaded = ["--require", join(root, "other-node.cjs"), join(root, "deploy/build.mjs")];
  return promisify(execFile)(process.execPath, [...preloaded, ...args]).then(
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

test.each(["0.12.18", "18.20.8", "20.0.0", "20.18.3"])(
  "Node %s is refused in one line, before a build",
  async (version) => {
    const stderr = `Node ${version} is too old: this needs Node 20.19 or later\n`;
    expect(await buildUnder(version)).toEqual({ code: 2, stderr });
  },
);

test.each(["20.19.0", "22.0.0", "24.11.1", "100.0.0"])("Node %s will do", async (version) => {
  mkdirSync(join(root, "dist"), { recursive: true });
  expect(await buildUnder(version)).toEqual({ code: 0, stderr: "" });
});

test("every program passes this door", () => {
  const { scripts } = JSON.parse(readFileSync(PACKAGE, "utf8")) as { scripts: Record<string, string> };
  const programs = Object.entries(scripts).filter(([, script]) => script.includes("exec node dist/"));
  expect(programs.map(([name]) => name)).toEqual(["start", "gateway", "engine", "launch", "keys"]);
  for (const [, script] of programs) expect(script).toMatch(/^node deploy\/build\.mjs .*&& exec node dist\//);
});
