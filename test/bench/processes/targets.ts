import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RunningChild, startChild } from "./child-process.ts";
import type { Directive } from "./directive.ts";
import type { LeftReport } from "./engine-process.ts";
import { type BenchGateway, GATEWAY_PROGRAM, startBenchGateway } from "./gateway-process.ts";
import { startNginx } from "./nginx.ts";
import { BENCH_FORMATS, requestText } from "./request-text.ts";

/** A target of the load: something between a client and the engine, or the engine itself. */
export type Target = {
  readonly name: string;
  readonly port: number;
  /** The process whose time counts; undefined where nothing stands in the middle. */
  readonly pid: number | undefined;
  /** A whole HTTP request. */
  request(directive: Directive): string;
};

/** Everything that the benches measure, running. */
export type Targets = {
  /** The engine itself, over plain HTTP. */
  readonly direct: Target;
  /** The targets to compare with: `net` and `http` always, `nginx` where it is installed. */
  readonly floors: readonly Target[];
  /**
   * The gateway, one target for each format; the same with the wire `grpc`; one that keeps no answer for another engine
   * to go on with; then the first ones of the other build, where one was named.
   */
  readonly gateways: readonly Target[];
  /** Resolves to the time at which the engine learnt that the caller of the request with this id had left. */
  left(id: string): Promise<number>;
  /** Ends all processes. */
  stop(): Promise<void>;
};

/** The name, before that of the format, of the gateway that keeps no answer for another engine to go on with. */
export const KEEPS_NOTHING = "keeping none,";

const PROGRAMS = import.meta.dirname;
const LEFT_TIMEOUT_MS = 10_000;

/** What the targets are started with. */
export type TargetOptions = {
  /** The folder in which the gateway leaves a CPU profile when it ends. Default: no profile. */
  readonly profileFolder?: string;
  /** The path of the `gateway/main.js` of another build, to compare with in the same run. Default: none. */
  readonly against?: string;
};

/** Starts all targets, once for all benches. */
export async function startTargets({ profileFolder, against }: TargetOptions): Promise<Targets> {
  const folder = await mkdtemp(join(tmpdir(), "svc-bench-"));
  const engine = await startChild("engine", join(PROGRAMS, "engine-process.js"), [], folder);
  const { address, ssePort } = engine.ready as { address: string; ssePort: number };
  const floor = (kind: string) => startChild(kind, join(PROGRAMS, "floor.js"), [kind, String(ssePort)], folder);
  const net = await floor("net");
  const http = await floor("http");
  const nginx = await startNginx(ssePort, folder);
  const flags = profileFolder === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profileFolder}`];
  const gateway = await startBenchGateway(GATEWAY_PROGRAM, join(folder, "gateway"), {
    engines: [address],
    nodeFlags: flags,
  });
  const forgetful = await startBenchGateway(GATEWAY_PROGRAM, join(folder, "forgetful"), {
    engines: [address],
    settings: { continuation: { maxBytes: 0 } },
  });
  const grpc = await startBenchGateway(GATEWAY_PROGRAM, join(folder, "grpc"), {
    engines: [address],
    settings: { upstream: { wire: "grpc" } },
  });
  const other = against && (await startBenchGateway(against, join(folder, "against"), { engines: [address] }));

  const plain = (name: string, port: number, pid?: number): Target => ({
    ...{ name, port, pid },
    request: (directive) => requestText("chat", "none", directive),
  });
  return {
    direct: plain("direct", ssePort),
    floors: [
      plain("net", portOf(net), net.pid),
      plain("http", portOf(http), http.pid),
      ...(nginx ? [plain("nginx", nginx.port, nginx.pid)] : []),
    ],
    gateways: [
      ...gatewayTargets("gateway", gateway),
      ...gatewayTargets("grpc", grpc),
      ...gatewayTargets(KEEPS_NOTHING, forgetful).slice(0, 1),
      ...(other ? gatewayTargets("against", other) : []),
    ],
    left: leavings(engine),
    async stop() {
      for (const child of [gateway, grpc, forgetful, other, nginx, http, net, engine]) if (child) await child.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function gatewayTargets(name: string, { port, pid, key }: BenchGateway): Target[] {
  return BENCH_FORMATS.map((format) => ({
    ...{ name: `${name} ${format}`, port, pid },
    request: (directive) => requestText(format, key, directive),
  }));
}

function portOf(child: RunningChild): number {
  return Number(child.ready.port);
}

function leavings(engine: RunningChild): (id: string) => Promise<number> {
  const waiting = new Map<string, (atUs: number) => void>();
  engine.process.on("message", (message) => {
    const { leftId, atUs } = message as LeftReport;
    waiting.get(leftId)?.(atUs);
    waiting.delete(leftId);
  });
  return (id) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error("the engine was not told that a client left")), LEFT_TIMEOUT_MS);
      waiting.set(id, (atUs) => {
        clearTimeout(timer);
        resolve(atUs);
      });
    });
}
