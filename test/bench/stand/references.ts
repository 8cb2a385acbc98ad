import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, closeSync, constants, openSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { stringify } from "yaml";
import { freePort } from "../../support/free-port.ts";

type Origin = { readonly originPort: number };
type Place = Origin & { readonly folder: string; readonly port: number };

type Started = Pick<ReferenceProgram, "program" | "args" | "readyPath">;

/** The alternatives to the gateway, each with one worker if possible; they log every request, as the gateway does. */
const REFERENCES: Readonly<Record<string, (place: Place) => Promise<Started | undefined>>> = {
  nginx: withFile("nginx", "nginx.conf", nginxConfig, () => ["-p", ".", "-c", "nginx.conf", "-e", "error.log"]),
  haproxy: withFile("haproxy", "haproxy.cfg", haproxyConfig, () => ["-f", "haproxy.cfg"]),
  envoy: withFile("envoy", "envoy.yaml", envoyConfig, () => [
    ...["-c", "envoy.yaml", "--concurrency", "1", "--log-level", "warning", "--use-dynamic-base-id"],
  ]),
  smg,
  litellm: withFile("litellm", "litellm.yaml", litellmConfig, ({ port }) => [
    ...["--config", "litellm.yaml", "--host", "127.0.0.1", "--port", String(port), "--num_workers", "1"],
  ]),
};

export const REFERENCE_NAMES: readonly string[] = Object.keys(REFERENCES);

/** Starts the named references that are installed. Also returns the names of the others, with the reason. */
export async function startReferences(
  names: readonly string[],
  origin: Origin,
  folder: string,
): Promise<{ readonly running: readonly Reference[]; readonly absent: readonly string[] }> {
  const running: Reference[] = [];
  const absent: string[] = [];
  for (const name of names) {
    const own = join(folder, name);
    await mkdir(own, { recursive: true });
    const port = await freePort();
    const found = await REFERENCES[name]?.({ ...origin, folder: own, port });
    if (!found) {
      absent.push(`${name} (not installed)`);
      continue;
    }
    try {
      running.push(await startReference({ name, port, folder: own, ...found }));
    } catch (error) {
      absent.push(`${name} (${error instanceof Error ? error.message : error})`);
    }
  }
  return { running, absent };
}

function withFile(
  name: string,
  file: string,
  config: (place: Place) => string,
  args: (place: Place) => readonly string[],
): (place: Place) => Promise<Started | undefined> {
  return async (place) => {
    const program = programOf(name);
    if (program === undefined) return undefined;
    await writeFile(join(place.folder, file), config(place));
    return { program, args: args(place) };
  };
}

function nginxConfig({ port, originPort }: Place): string {
  const kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  return `
daemon off;
master_process off;
pid nginx.pid;
events { worker_connections 16384; }
http {
  ${kinds.map((kind) => `${kind}_temp_path ${kind};`).join("\n  ")}
  access_log access.log combined buffer=64k;
  client_max_body_size 64m;
  client_body_buffer_size 2m;
  keepalive_requests 1000000;
  upstream origin { server 127.0.0.1:${originPort}; keepalive 64; keepalive_requests 1000000; }
  server {
    listen 127.0.0.1:${port} backlog=8192;
    location / {
      proxy_pass http://origin;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 600s;
    }
  }
}
`;
}

function haproxyConfig({ port, originPort }: Place): string {
  return `
global
  nbthread 1
  maxconn 9000
  log stdout format raw local0 info
defaults
  mode http
  log global
  option httplog
  option http-no-delay
  timeout connect 5s
  timeout client 600s
  timeout server 600s
frontend public
  bind 127.0.0.1:${port}
  default_backend origin
backend origin
  http-reuse always
  server origin 127.0.0.1:${originPort}
`;
}

function envoyConfig({ port, originPort }: Place): string {
  const socket = (number: number) => ({ socket_address: { address: "127.0.0.1", port_value: number } });
  const type = (name: string) => ({ "@type": `type.googleapis.com/envoy.extensions.${name}` });
  const limits = { thresholds: [{ max_connections: 20_000, max_pending_requests: 20_000, max_requests: 20_000 }] };
  const manager = {
    ...type("filters.network.http_connection_manager.v3.HttpConnectionManager"),
    stat_prefix: "public",
    access_log: [
      { name: "file", typed_config: { ...type("access_loggers.file.v3.FileAccessLog"), path: "access.log" } },
    ],
    http_filters: [{ name: "router", typed_config: type("filters.http.router.v3.Router") }],
    route_config: {
      virtual_hosts: [
        {
          name: "all",
          domains: ["*"],
          routes: [{ match: { prefix: "/" }, route: { cluster: "origin", timeout: "0s" } }],
        },
      ],
    },
  };
  const endpoints = [{ lb_endpoints: [{ endpoint: { address: socket(originPort) } }] }];
  return stringify({
    static_resources: {
      listeners: [
        {
          name: "public",
          address: socket(port),
          filter_chains: [{ filters: [{ name: "http", typed_config: manager }] }],
        },
      ],
      clusters: [
        {
          ...{ name: "origin", type: "STATIC", connect_timeout: "5s", circuit_breakers: limits },
          load_assignment: { cluster_name: "origin", endpoints },
        },
      ],
    },
  });
}

async function smg({ originPort, port }: Place): Promise<Started | undefined> {
  const program = programOf("smg");
  if (program === undefined) return undefined;
  const limits = ["--max-concurrent-requests", "20000", "--disable-load-monitoring"];
  const where = ["--host", "127.0.0.1", "--port", String(port), "--worker-urls", `http://127.0.0.1:${originPort}`];
  // Both serve metrics, by default on the same port.
  const metrics = ["--prometheus-host", "127.0.0.1", "--prometheus-port", String(await freePort())];
  const args = ["launch", ...where, "--policy", "round_robin", "--log-level", "info", ...limits, ...metrics];
  // It accepts connections before its worker is ready.
  return { program, args, readyPath: "/readiness" };
}

function litellmConfig({ originPort }: Place): string {
  const origin = { model: "openai/svc-qwen", api_base: `http://127.0.0.1:${originPort}/v1`, api_key: "none" };
  return stringify({
    model_list: [{ model_name: "svc-qwen", litellm_params: origin }],
    // Newer versions do not start without a master key.
    general_settings: { dangerously_permit_weak_or_unset_master_key: true },
  });
}

const START_MS = 90_000;

export type Reference = Awaited<ReturnType<typeof startReference>>;

type ReferenceProgram = {
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly port: number;
  readonly folder: string;
  /** The path that returns 200 when the reference can serve. Default: it serves once it accepts connections. */
  readonly readyPath?: string;
};

async function startReference(options: ReferenceProgram) {
  const { name, port } = options;
  let running = await run(options);
  return {
    ...{ name, port },
    get pid() {
      return running.child.pid ?? 0;
    },
    async restart(): Promise<void> {
      await running.end();
      running = await run(options);
    },
    stop: () => running.end(),
  };
}

type Run = { readonly child: ChildProcess; end(): Promise<void> };

async function run(options: ReferenceProgram): Promise<Run> {
  const { name, folder } = options;
  const log = join(folder, `${name}.log`);
  const child = spawned(options, log);
  child.once("error", () => {});
  // A reference does not detect the end of the bench, so it is killed at exit.
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  const ended = once(child, "close");
  const end = async () => {
    process.off("exit", kill);
    kill();
    await ended;
  };
  try {
    for (const lastMs = Date.now() + START_MS; !(await serves(options)); await sleep(50))
      if (child.exitCode !== null || Date.now() > lastMs) throw new Error(readFileSync(log, "utf8").slice(-2_000));
  } catch (cause) {
    kill();
    throw new Error(`${name} did not start`, { cause });
  }
  return { child, end };
}

async function serves({ port, readyPath }: ReferenceProgram): Promise<boolean> {
  if (readyPath === undefined) return accepts(port);
  const answer = await fetch(`http://127.0.0.1:${port}${readyPath}`).catch(() => undefined);
  await answer?.text();
  return answer?.ok ?? false;
}

function spawned({ program, args, folder }: ReferenceProgram, log: string): ChildProcess {
  const file = openSync(log, "a");
  const child = spawn(program, args, { cwd: folder, stdio: ["ignore", file, file] });
  closeSync(file);
  return child;
}

/** Pins a process with all its threads to one CPU. Does nothing without `taskset`. */
export function pin(pid: number, processor: number | undefined): void {
  const taskset = processor === undefined ? undefined : programOf("taskset");
  if (taskset !== undefined) execFileSync(taskset, ["-acp", String(processor), String(pid)], { stdio: "ignore" });
}

function folders(): readonly string[] {
  const named = process.env.SVC_BENCH_REFERENCES?.split(delimiter) ?? [];
  return [...named, join(process.cwd(), ".tools/references"), join(process.cwd(), ".tools")];
}

/** Returns the path of a program on the PATH or in a folder of references; undefined if there is none. */
function programOf(name: string): string | undefined {
  const path = (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, name));
  return [...folders().map((folder) => join(folder, "bin", name)), ...path].find((file) => {
    try {
      accessSync(file, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
