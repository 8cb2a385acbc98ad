import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { becomes } from "../support/becomes.ts";
import { freePort } from "../support/free-port.ts";
import { bodyFor } from "../support/http/answer-check.ts";
import { createKey } from "../support/processes/key-command.ts";
import { endKindsOf, openStreams } from "../support/processes/open-streams.ts";
import { processesWith } from "../support/processes/processes-with.ts";
import { covering } from "../support/size.ts";

/*
 * Signals to the process that `npm run` starts, as from systemd, containers and CI. The log is a file, or a pipe whose
 * reader exits after the first line, as with `npm run gateway 2>&1 | head -1`.
 */

const ROOT = join(import.meta.dirname, "../..");
type Log = "a file" | "head -1";
const CASES: readonly (readonly [NodeJS.Signals, Log])[] = [
  ["SIGINT", "a file"],
  ["SIGTERM", "head -1"],
];
type Scripts = "gateway and engine" | "start";
/** Without FULL=1 each case with one script, and each script in one case. */
const ROWS = covering(
  (["gateway and engine", "start"] as const).flatMap((scripts) =>
    CASES.map((signalAndLog) => ({ scripts, signalAndLog })),
  ),
  ({ scripts }) => scripts,
  ({ signalAndLog }) => signalAndLog.join(),
);
const casesOf = (wanted: Scripts) =>
  ROWS.filter(({ scripts }) => scripts === wanted).map(({ signalAndLog }) => signalAndLog);
/** A test starts four processes of npm and five of ours. */
const TIMEOUT_MS = 120_000;

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0).reverse()) close();
});

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "svc-npm-"));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Runs a script of package.json with npm, with only the project's configuration. */
function npm(folder: string, log: Log, ...args: readonly string[]): ChildProcess {
  const head = spawn("head", ["-1"], { stdio: ["pipe", "ignore", "ignore"] });
  const output = log === "head -1" ? head.stdin : openSync(join(folder, `${args[1]}.log`), "a");
  const child = spawn("npm", args, {
    cwd: ROOT,
    env: { PATH: process.env.PATH, HOME: folder },
    detached: true,
    stdio: ["ignore", output, output],
  });
  head.stdin.destroy();
  closing.push(() => {
    try {
      if (child.pid) process.kill(-child.pid, "SIGKILL");
    } catch {
      // It has exited as expected.
    }
  });
  return child;
}

async function isReady(adminPort: number): Promise<boolean> {
  const response = await fetch(`http://127.0.0.1:${adminPort}/ready`).catch(() => undefined);
  return response?.status === 200;
}

/** Opens six streams of the demonstration model that last for some seconds. */
function openLongStreams(port: number, key: string) {
  const post = (path: string, body: unknown) =>
    fetch(`http://127.0.0.1:${port}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  return openStreams({ post }, 6, { fields: (path) => bodyFor(path, "Count from 1 to 50.") });
}

const onLinux = describe.runIf(process.platform === "linux");

onLinux.each(casesOf("gateway and engine"))("%s, with the log read by %s,", (signal, log) => {
  test("to npm run gateway and npm run engine lets streams end whole, and both exit with 0", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const folder = newFolder();
    const [port, adminPort, enginePort] = [await freePort(), await freePort(), await freePort()];
    const keys = { file: join(folder, "keys.json") };
    const key = await createKey(keys.file);
    const backend = { kind: "llama", modelPath: join(ROOT, "engine/demo-model/demo.gguf"), contextTokens: 4_096 };
    const configs = {
      engine: {
        ...{ nodeId: "engine", models: ["svc-qwen"], listen: { port: enginePort }, metrics: { port: 0 } },
        // No other node could continue its answers.
        ...{ handoverGraceMs: 60_000, backend: { ...backend, slots: 8, gpu: false } },
      },
      gateway: {
        listen: { port },
        admin: { port: adminPort },
        keys,
        clusters: [{ model: "svc-qwen", endpoints: [{ address: `127.0.0.1:${enginePort}` }] }],
        drainGraceMs: 500,
      },
    };
    const programs = Object.entries(configs).map(([name, config]) => {
      const file = join(folder, `${name}.yaml`);
      writeFileSync(file, JSON.stringify(config));
      const child = npm(folder, log, "run", name, "--", "--config", file);
      return { child, ended: once(child, "exit") };
    });
    await becomes(() => isReady(adminPort), "the gateway is ready");
    const streams = await openLongStreams(port, key);
    for (const { child } of programs) child.kill(signal);
    expect(await endKindsOf(streams)).toEqual(Array(6).fill("complete"));
    expect(await Promise.all(programs.map(({ ended }) => ended))).toEqual([
      [0, null],
      [0, null],
    ]);
    expect(processesWith(folder)).toEqual([]);
  });
});

onLinux.each(casesOf("start"))("%s, with the log read by %s,", (signal, log) => {
  test("to npm start ends every stream in its format, and exits with 0", { timeout: TIMEOUT_MS }, async () => {
    const folder = newFolder();
    const [port, adminPort, enginePort] = [await freePort(), await freePort(), await freePort()];
    const ports = ["--port", port, "--admin-port", adminPort, "--engine-port", enginePort].map(String);
    const start = npm(folder, log, "start", "--", ...ports, "--state-dir", join(folder, "state"));
    const ended = once(start, "exit");
    await becomes(() => isReady(adminPort), "the gateway is ready");
    const streams = await openLongStreams(port, readFileSync(join(folder, "state/local-key"), "utf8").trim());
    start.kill(signal);
    // They have 5 s: on a busy machine the model is slower.
    expect(await endKindsOf(streams)).not.toContain("truncated");
    expect(await ended).toEqual([0, null]);
    expect(processesWith(folder)).toEqual([]);
  });
});
