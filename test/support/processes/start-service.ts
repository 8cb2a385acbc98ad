import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { projectFolder } from "../../../deploy/runtime/files/project-folder.ts";
import { freePort } from "../free-port.ts";
import { bodyFor } from "../http/answer-check.ts";
import { processesWith } from "./processes-with.ts";

const ROOT = projectFolder();

export type Service = Awaited<ReturnType<typeof startService>>;

export type StartOptions = {
  readonly args?: readonly string[];
  readonly state?: string;
  readonly env?: Readonly<Record<string, string>>;
};

/** Most engines of a test service: each has its own port after that of the first. */
const MOST_ENGINES = 4;

const MAIN = "deploy/local/main.js";
export const START = join(ROOT, "dist", MAIN);

/** Runs `npm start` without npm: the built supervisor with its real children, by default on free ports. */
export async function startService(
  ports: readonly [number, number, number] = [0, 0, 0],
  { args = [], state, env = {} }: StartOptions = {},
  main = MAIN,
) {
  const stateDir = state ?? (await mkdtemp(join(tmpdir(), "svc-start-")));
  // Replaced processes use the same ports.
  const [port, adminPort, enginePort] = await Promise.all(
    ports.map(async (one) => one || (await freePort(MOST_ENGINES))),
  );
  const own = ["--port", port, "--admin-port", adminPort, "--engine-port", enginePort, "--state-dir", stateDir];
  const child = spawn(process.execPath, [join(ROOT, "dist", main), ...own.map(String), ...args], {
    env: { ...process.env, ...env },
    // A new process group, so that a signal can be sent as a terminal does.
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let errors = "";
  child.stderr?.on("data", (chunk) => {
    errors += chunk;
  });
  const ended = once(child, "close").then(([code]) => code as number | null);
  const ready = await new Promise<Record<string, string>>((resolve, reject) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (line.startsWith("ready ")) resolve(JSON.parse(line.slice(6)));
    });
    void ended.then((code) => reject(new Error(`the service ended with ${code}: ${errors}`)));
  });
  const { baseUrl = "", adminUrl = "", engine = "", keyFile = "" } = ready;
  const key = readFileSync(keyFile, "utf8").trim();
  return {
    baseUrl,
    adminUrl,
    engine,
    key,
    stateDir,
    process: child,
    said: () => errors,
    ports: [baseUrl, adminUrl, engine].map((address) => address.split(":").at(-1) ?? ""),
    /** Sends a body as JSON over a new connection: the gateway may have been replaced. */
    post: (path: string, body: unknown, signal?: AbortSignal) =>
      fetch(`${baseUrl}${path}`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json", connection: "close" },
        body: JSON.stringify(body),
        ...(signal && { signal }),
      }),
    /** Sends the signal to the whole process group, as a terminal does; resolves to the exit code. */
    async stop(signal: NodeJS.Signals = "SIGINT") {
      if (child.exitCode === null && child.signalCode === null && child.pid) process.kill(-child.pid, signal);
      const code = await ended;
      await rm(stateDir, { recursive: true, force: true });
      return code;
    },
  };
}

/** Runs `npm start` with a simulated engine of 50 tokens a second. */
export function startSimulated(options: StartOptions = {}): Promise<Service> {
  return startService([0, 0, 0], options, "test/support/engine/start.js");
}

export async function adminText(service: Service, path: string, method = "GET"): Promise<string | undefined> {
  const response = await fetch(`${service.adminUrl}${path}`, { method }).catch(() => undefined);
  return response?.text();
}

export async function isLive(service: Service): Promise<boolean> {
  return (await adminText(service, "/ready")) === "LIVE\n";
}

/** Whether a new request is answered. */
export async function answers(service: Service): Promise<boolean> {
  const path = "/v1/chat/completions";
  return (await service.post(path, bodyFor(path, "hi", { max_tokens: 1 }))).status === 200;
}

/** Returns the process id of the gateway; on Linux only. */
export function gatewayProcess({ stateDir }: Service): number {
  const [pid] = processesWith(`${stateDir}/gateway.yaml`);
  if (pid === undefined) throw new Error("there is no gateway");
  return pid;
}
