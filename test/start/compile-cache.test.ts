import { execFile, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import module from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, describe, expect, test } from "vitest";
import { Child, startProcess } from "../../deploy/local/child.ts";
import { compileCacheEnv } from "../../deploy/runtime/process/compile-cache.ts";
import { startService } from "../support/processes/start-service.ts";

/*
 * What V8 has compiled of a program, for the processes that start later. Node 20 cannot keep it, and there the same
 * programs have to run without.
 */

const DIST = join(import.meta.dirname, "../../dist");
const FILL = join(DIST, "deploy/images/fill-compile-cache.js");
const GATEWAY = join(DIST, "gateway/main.js");
const KEEPER = join(DIST, "deploy/runtime/process/compile-cache.js");
const KEEPS = "flushCompileCache" in module;
/** The modules of a gateway are some 1,400: far more than those that a program of a few lines brings. */
const MANY = 500;
const TIMEOUT_MS = 120_000;

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "svc-compiled-"));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The files below a folder, with the times at which they were written. */
function written(folder: string): ReadonlyMap<string, number> {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  const files = names.map((name) => [name, statSync(join(folder, name))] as const);
  return new Map(files.filter(([, stats]) => stats.isFile()).map(([name, { mtimeMs }]) => [name, mtimeMs]));
}

/** Starts a script of this text as `npm start` starts its programs. */
function started(text: string, compiled: string): Child {
  const file = join(newFolder(), "program.mjs");
  writeFileSync(file, text);
  return new Child("program", startProcess(file, [], compiled));
}

describe("a process of npm start", () => {
  test("keeps it in the folder of the start", async () => {
    const compiled = newFolder();
    const child = started('console.log("ready " + JSON.stringify(process.env.NODE_COMPILE_CACHE));', compiled);
    expect(await child.ready).toBe(compiled);
    await child.ended;
    expect(written(compiled).size).toBe(KEEPS ? 1 : 0);
  });

  test("has kept what it was told to keep although it is killed, and nothing by itself", async () => {
    const told = `import { keepCompiled } from ${JSON.stringify(KEEPER)}; keepCompiled();`;
    for (const [text, files] of [
      [told, 2],
      ["", 0],
    ] as const) {
      const compiled = newFolder();
      const child = started(`${text} console.log("ready {}"); setInterval(() => {}, 1_000);`, compiled);
      await child.ready;
      child.signal("SIGKILL");
      expect(await child.ended).toBe("SIGKILL");
      expect(written(compiled).size).toBe(KEEPS ? files : 0);
    }
  });
});

test(
  "a start keeps it in its state folder, which is nobody else's",
  async () => {
    const service = await startService([0, 0, 0], { args: ["--model", "simulator"] });
    closing.push(() => service.stop("SIGKILL"));
    const ended = once(service.process, "close");
    service.process.kill("SIGINT");
    expect(await ended).toEqual([0, null]);
    const compiled = join(service.stateDir, "compiled");
    expect(statSync(compiled).mode & 0o777).toBe(0o700);
    expect(written(compiled).size > MANY).toBe(KEEPS);
  },
  TIMEOUT_MS,
);

describe("the gateway of an image", () => {
  test(
    "finds what was compiled when the image was made, and changes nothing of it",
    async () => {
      const compiled = newFolder();
      await promisify(execFile)(process.execPath, [FILL, compiled]);
      const before = written(compiled);
      if (KEEPS) expect(before.size).toBeGreaterThan(MANY);
      else expect(before.size).toBe(0);

      const config = join(newFolder(), "gateway.yaml");
      writeFileSync(config, JSON.stringify({ keys: { file: "keys.json" }, clusters: [] }));
      const env = { ...process.env, ...compileCacheEnv(compiled), NODE_DEBUG_NATIVE: "COMPILE_CACHE" };
      const child = execFile(process.execPath, [GATEWAY, "--check-config", "--config", config], { env });
      let said = "";
      child.stderr?.on("data", (chunk) => {
        said += chunk;
      });
      await once(child, "close");
      const taken = said.split("was accepted").length - 1;
      expect(child.exitCode).toBe(0);
      if (KEEPS) expect(taken).toBeGreaterThan(MANY);
      expect(written(compiled)).toEqual(before);
    },
    TIMEOUT_MS,
  );

  test("says what it was called wrongly with", () => {
    const { status, stderr } = spawnSync(process.execPath, [FILL], { encoding: "utf8" });
    expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringContaining("missing required argument") });
  });
});
