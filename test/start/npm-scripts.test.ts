import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { issueLocalKey } from "../../gateway/keys/local-key.ts";
import { becomes } from "../support/becomes.ts";
import { freePort } from "../support/free-port.ts";
import { endsOf, openStreams } from "../support/processes/open-streams.ts";
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

function front(port: number, key: string) {
  return {
    post: (path: string, body: unknown) =>
      fetch(`http://127.0.0.1:${port}${path}`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      }),
  };
}

/** Returns the number of streams by end. */
async function talliedEnds(streams: Parameters<typeof endsOf>[0]) {
  const ends = (await endsOf(streams)).map(({ end }) => end);
  const count = (end: string) => ends.filter((each) => each === end).length;
  return { complete: count("complete"), error: count("error"), cut: count("cut") };
}

const onLinux = describe.runIf(process.platform === "linux");

onLinux.each(casesOf("gateway and engine"))("%s, with the log read by %s,", (signal, log) => {
  test("to npm run gateway and npm run engine lets 50 streams end whole, and both exit with 0", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const folder = newFolder();
    const [port, adminPort, enginePort] = [await freePort(), await freePort(), await freePort()];
    const backend = { kind: "simulator", tokensPerSecond: 25, slots: 64, answerTokens: { min: 75, max: 75 } };
    const keys = { file: join(folder, "keys.json") };
    const key = await issueLocalKey({ ...keys, existing: undefined, nowMs: Date.now() }, new AbortController().signal);
    const endpoints = [{ address: `127.0.0.1:${enginePort}` }];
    const configs = {
      engine: {
        ...{ nodeId: "engine", models: ["svc-qwen"], listen: { port: enginePort }, metrics: { port: 0 }, backend },
        // No other node could continue its answers.
        handoverGraceMs: 60_000,
      },
      gateway: {
        listen: { port },
        admin: { port: adminPort },
        keys,
        clusters: [{ model: "svc-qwen", endpoints }],
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
    const streams = await openStreams(front(port, key), 50);
    for (const { child } of programs) child.kill(signal);
    expect(await talliedEnds(streams)).toEqual({ complete: 50, error: 0, cut: 0 });
    expect(await Promise.all(programs.map(({ ended }) => ended))).toEqual([
      [0, null],
      [0, null],
    ]);
    expect(processesWith(folder)).toEqual([]);
  });
});

onLinux.each(casesOf("start"))("%s, with the log read by %s,", (signal, log) => {
  test("to npm start lets answers complete within 5 s, and ends the rest with an error frame", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const folder = newFolder();
    const [port, adminPort, enginePort] = [await freePort(), await freePort(), await freePort()];
    const ports = ["--port", port, "--admin-port", adminPort, "--engine-port", enginePort].map(String);
    const start = npm(
      folder,
      log,
      "start",
      "--",
      "--model",
      "simulator",
      ...ports,
      "--state-dir",
      join(folder, "state"),
    );
    const ended = once(start, "exit");
    await becomes(() => isReady(adminPort), "the gateway is ready");
    const service = front(port, readFileSync(join(folder, "state/local-key"), "utf8").trim());
    const long = await openStreams(service, 6);
    const fields = (path: string) => ({ [path === "/v1/responses" ? "max_output_tokens" : "max_tokens"]: 75 });
    const short = await openStreams(service, 6, { fields });
    start.kill(signal);
    expect(await talliedEnds(short)).toEqual({ complete: 6, error: 0, cut: 0 });
    expect(await talliedEnds(long)).toEqual({ complete: 0, error: 2, cut: 4 });
    expect(await ended).toEqual([0, null]);
    expect(processesWith(folder)).toEqual([]);
  });
});
