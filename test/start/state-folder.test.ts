import { execFile } from "node:child_process";
import { readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, expect, test } from "vitest";
import { becomes } from "../support/becomes.ts";
import { processesWith } from "../support/processes/processes-with.ts";
import { type Service, START, startService } from "../support/processes/start-service.ts";

/* One start owns its state folder and its ports, or changes no files. */

const ANY_PORTS = ["--port", "0", "--admin-port", "0", "--engine-port", "0"];
const QUICK = { args: ["--model", "scripted"] };

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function started(options: Parameters<typeof startService>[1] = QUICK): Promise<Service> {
  const service = await startService([0, 0, 0], options);
  cleanUps.push(() => service.stop("SIGKILL"));
  return service;
}

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "svc-start-"));
  cleanUps.push(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function refusal(...args: readonly string[]): Promise<{ readonly code: number; readonly stderr: string }> {
  return promisify(execFile)(process.execPath, [START, "--model", "scripted", ...args]).then(
    () => {
      throw new Error("it was not refused");
    },
    (error: { code: number; stderr: string }) => error,
  );
}

/** The text of every file by its name. */
function contents(folder: string): Record<string, string> {
  const files = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(files.map(({ name }) => [name, readFileSync(join(folder, name), "latin1")]));
}

test("a second start on the same folder is refused with 2, and changes no file of it", async () => {
  const { stateDir } = await started();
  const before = contents(stateDir);
  const { code, stderr } = await refusal(...ANY_PORTS, "--state-dir", stateDir, "--log-level", "debug");
  expect(code).toBe(2);
  expect(stderr).toContain(`another start uses ${stateDir}`);
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  expect(contents(stateDir)).toEqual(before);
});

test("a sealing key that others may read is refused", async () => {
  const folder = await newFolder();
  writeFileSync(join(folder, "sealing-key"), "x".repeat(32), { mode: 0o644 });
  const { code, stderr } = await refusal(...ANY_PORTS, "--state-dir", folder);
  expect([code, stderr]).toEqual([1, expect.stringContaining(`${join(folder, "sealing-key")} is open to other users`)]);
});

test("a configuration link in the state folder is replaced, and its target is not written", async () => {
  const folder = await newFolder();
  const elsewhere = join(await newFolder(), "engine.yaml");
  writeFileSync(elsewhere, "mine");
  symlinkSync(elsewhere, join(folder, "engine-1.yaml"));
  await started({ ...QUICK, state: folder });
  expect(readFileSync(elsewhere, "utf8")).toBe("mine");
});

test.runIf(process.platform === "linux")(
  "the folder of a start that was killed is taken over, with its key",
  async () => {
    const first = await started();
    first.process.kill("SIGKILL");
    await becomes(async () => processesWith(first.stateDir).length === 0, "all of it has ended");
    expect(readdirSync(first.stateDir)).toContain("start.lock");
    const second = await started({ ...QUICK, state: first.stateDir });
    expect(second.key).toBe(first.key);
    expect(await second.stop()).toBe(0);
  },
);

test.each(["--port", "--admin-port", "--engine-port"])("a port in use is named with its flag, %s", async (flag) => {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  cleanUps.push(() => server.close());
  const { port } = server.address() as { readonly port: number };
  const state = await newFolder();
  const { code, stderr } = await refusal(...ANY_PORTS, flag, String(port), "--state-dir", state);
  const taken = `start: ${flag}: 127.0.0.1:${port} is in use by another process`;
  expect([code, stderr]).toEqual([1, `${taken}\nfree ones: npm start -- ${flag} 0\n`]);
  expect(readdirSync(state)).toEqual([]);
});
