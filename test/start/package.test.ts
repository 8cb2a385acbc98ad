import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, describe, expect, test } from "vitest";
import { missing } from "../support/engine/demo-engine.ts";

/* The package of all programs, as its user runs it: by npx, from an empty folder, with the registry's dependencies. */

const ROOT = join(import.meta.dirname, "../..");
const INSTALLED_MEGABYTES = 250;
const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
const PACKAGE = `svc-${version}.tgz`;
const FILE = join(ROOT, "dist", PACKAGE);
const offline = spawnSync("npm", ["view", "fastify", "version"]).status === 0 ? "" : "npm reaches no registry";
const reason = missing || offline;

describe.skipIf(reason !== "")(`the package ${reason}`, () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-package-"));
  const env = { ...process.env, npm_config_cache: join(folder, "npm"), npm_config_loglevel: "error" };
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("the package answers a request from an empty folder, and is small", { timeout: 300_000 }, async () => {
    execFileSync(process.execPath, [join(ROOT, "deploy/package.mjs")], { stdio: "ignore" });
    const home = mkdtempSync(join(folder, "empty-"));
    copyFileSync(FILE, join(home, PACKAGE));
    const args = ["--yes", `./${PACKAGE}`, "start", "--port", "0", "--admin-port", "0", "--engine-port", "0"];
    const npx = spawn("npx", args, { cwd: home, env, detached: true, stdio: ["ignore", "pipe", "inherit"] });
    const ended = once(npx, "exit");
    try {
      let ready: { readonly baseUrl: string; readonly keyFile: string } | undefined;
      for await (const line of createInterface(npx.stdout)) {
        if (!line.startsWith("ready ")) continue;
        ready = JSON.parse(line.slice("ready ".length));
        break;
      }
      if (!ready) throw new Error("it ended before it was ready");
      const headers = {
        "content-type": "application/json",
        authorization: `Bearer ${readFileSync(ready.keyFile, "utf8").trim()}`,
      };
      const body = { model: "svc-qwen", messages: [{ role: "user", content: "Hello!" }], temperature: 0 };
      const reply = await fetch(`${ready.baseUrl}/v1/chat/completions`, {
        method: "POST",
        headers,
        body: JSON.stringify(body),
      });
      const { choices } = (await reply.json()) as { choices: { message: { content: string } }[] };
      expect([reply.status, choices[0]?.message.content]).toEqual([200, expect.stringMatching(/^Hello/)]);
      // Both pages come from files of the package.
      expect((await fetch(`${ready.baseUrl}/`)).status).toBe(200);
    } finally {
      process.kill(-(npx.pid ?? 0), "SIGINT");
      await ended;
    }
    expect(readdirSync(home)).toEqual([".svc", PACKAGE]);
    const size = execFileSync("du", ["-sm", join(folder, "npm/_npx")], { encoding: "utf8" });
    expect(Number.parseInt(size, 10)).toBeLessThan(INSTALLED_MEGABYTES);
  });

  test.each([
    [["--version"], 0, `svc ${version}\n`],
    [["gateway", "--version"], 0, `svc-gateway ${version}\n`],
    [["keys", "--help"], 0, expect.stringContaining("Usage: ")],
    [["launch", "--help"], 0, expect.stringContaining("claude, codex, opencode")],
    [["nonsense"], 2, expect.stringContaining("usage: svc PROGRAM")],
    [[], 2, expect.stringContaining("usage: svc PROGRAM")],
  ])("svc %s ends with %i", (args, code, output) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, "deploy/svc.mjs"), ...args], {
      encoding: "utf8",
    });
    expect([status, code === 0 ? stdout : stderr]).toEqual([code, output]);
  });

  let completion: string | undefined;
  test.each([
    ["st", "start"],
    ["start --ag", "--agents --agent"],
    ["keys cr", "create"],
    ["gateway --check", "--check-config"],
    ["nonsense ", ""],
  ])("a shell completes svc %s", (typed, completed) => {
    const words = ["svc", ...typed.split(" ")];
    completion ??= execFileSync(process.execPath, [join(ROOT, "deploy/svc.mjs"), "completion"], { encoding: "utf8" });
    const script = `source /dev/stdin <<<"$1"; COMP_WORDS=("\${@:2}"); COMP_CWORD=$(($# - 2)); _svc; echo "\${COMPREPLY[*]}"`;
    const args = ["-c", script, "bash", completion, ...words];
    expect(execFileSync("bash", args, { encoding: "utf8" }).trim()).toBe(completed);
  });
});
