import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Registry } from "prom-client";
import type { NodePhase } from "../node/node-state.ts";

/** The running HTTP server of metrics; `close` also ends all its connections. */
export type MetricsServer = { readonly port: number; close(): Promise<void> };

export type MetricsAddress = { readonly host: string; readonly port: number };

export type ProbedNode = {
  readonly phase: NodePhase;
  /** Whether running work has had no step for so long that only a restart helps; false while it starts. */
  readonly engineHung: boolean;
};

/**
 * Serves a registry under `/metrics`, and three probes: `/healthz` returns 200 while the process lives, `/livez/engine`
 * 503 if the engine hangs, and `/readyz` 200 only while the node accepts calls. Throws if the address cannot be used.
 */
export async function serveMetrics(
  registry: Registry,
  node: ProbedNode,
  { host, port }: MetricsAddress,
): Promise<MetricsServer> {
  const paths: Readonly<Record<string, (response: ServerResponse) => void>> = {
    "/healthz": (response) => response.writeHead(200).end("ok\n"),
    "/livez/engine": (response) =>
      node.engineHung ? response.writeHead(503).end("hung\n") : response.writeHead(200).end("ok\n"),
    "/readyz": (response) => response.writeHead(node.phase === "serving" ? 200 : 503).end(`${node.phase}\n`),
    "/metrics": (response) =>
      registry.metrics().then(
        (text) => response.writeHead(200, { "content-type": registry.contentType }).end(text),
        () => response.writeHead(500).end(),
      ),
  };
  const server = createServer(({ method, url = "" }, response) => {
    const answer = method === "GET" && Object.hasOwn(paths, url) ? paths[url] : undefined;
    if (answer) answer(response);
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
