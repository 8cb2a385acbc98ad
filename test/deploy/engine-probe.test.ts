import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Registry } from "prom-client";
import { afterEach, describe, expect, test } from "vitest";
import { type ProbedNode, serveMetrics } from "../../engine/metrics/metrics-server.ts";
import { freePort } from "../support/free-port.ts";
import { noKustomize, rendered, resourcesOf } from "../support/tools/manifests.ts";

/* The probe of engines beside a node, run as a kubelet does in their containers. */

const SETS = ["engines/vllm", "engines/vllm-multihost", "engines/sglang-multihost"];
const noPython = spawnSync("python3", ["--version"]).error ? "there is no python3" : "";

type Probe = {
  readonly exec?: { readonly command: readonly string[] };
  readonly timeoutSeconds: number;
  readonly terminationGracePeriodSeconds?: number;
};
type Container = {
  readonly name: string;
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly livenessProbe?: Probe;
  readonly startupProbe?: Probe;
};
type Pod = {
  readonly spec: { readonly initContainers: readonly Container[]; readonly containers: readonly Container[] };
};

function nodePod(folder: string): Pod["spec"] {
  const [set] = resourcesOf(rendered(folder)).filter(({ kind }) => kind === "Deployment" || kind === "LeaderWorkerSet");
  const spec = set?.spec as { template?: Pod; leaderWorkerTemplate?: { leaderTemplate: Pod } };
  const pod = spec.template ?? spec.leaderWorkerTemplate?.leaderTemplate;
  if (!pod) throw new Error(`${folder} has no pod`);
  return pod.spec;
}

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** Runs a command as the kubelet does; resolves to its exit code. */
async function exitCode([program = "", ...args]: readonly string[]): Promise<number | null> {
  const child: ChildProcess = spawn(program, args, {
    stdio: "ignore",
    // A proxy must not affect a probe.
    env: { PATH: process.env.PATH, http_proxy: "http://127.0.0.1:1" },
  });
  const [code] = await once(child, "close");
  return code as number | null;
}

describe.skipIf(noKustomize !== "" || noPython !== "").each(SETS)("the engine of %s", (folder) => {
  const spec = noKustomize === "" ? nodePod(folder) : { initContainers: [], containers: [] };
  const [engine] = spec.initContainers;
  const [node] = spec.containers;
  const metricsPort = node?.ports?.find(({ name }) => name === "metrics")?.containerPort;
  const command = engine?.livenessProbe?.exec?.command ?? [];

  const probed = (port: number) => exitCode(command.map((part) => part.replace(String(metricsPort), String(port))));

  test("the engine of a pod is probed if the node reports it, without a probe that would keep the node from starting", () => {
    expect(command.join(" ")).toContain(`"127.0.0.1", ${metricsPort}`);
    expect(engine?.startupProbe).toBeUndefined();
    expect(engine?.livenessProbe?.terminationGracePeriodSeconds).toBe(30);
  });

  test("the engine of a pod is restarted if the node reports that it hangs", async () => {
    const state: { -readonly [Field in keyof ProbedNode]: ProbedNode[Field] } = { phase: "stalled", engineHung: true };
    const server = await serveMetrics(new Registry(), state, { host: "127.0.0.1", port: 0 });
    closing.push(server.close);
    expect(await probed(server.port)).toBe(1);
    state.engineHung = false;
    expect(await probed(server.port)).toBe(0);
  });

  test("the engine of a pod is not restarted if the node is unreachable, older than the probe, or resets the connection", async () => {
    expect(await probed(await freePort())).toBe(0);
    const other = createServer((request, response) => {
      if (request.headers.host?.startsWith("127.0.0.1")) response.writeHead(404).end();
    }).listen(0, "127.0.0.1");
    closing.push(() => other.close());
    await once(other, "listening");
    expect(await probed((other.address() as AddressInfo).port)).toBe(0);
    const broken = createServer((request) => request.socket.end("no HTTP\r\n\r\n")).listen(0, "127.0.0.1");
    closing.push(() => broken.close());
    await once(broken, "listening");
    expect(await probed((broken.address() as AddressInfo).port)).toBe(0);
  });
});
