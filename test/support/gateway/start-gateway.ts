import { mkdtemp, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { pino } from "pino";
import { checkConfig } from "../../../deploy/runtime/config/load-config.ts";
import { followTls } from "../../../deploy/runtime/grpc/server-tls.ts";
import { type Clock, systemClock } from "../../../deploy/runtime/time/clock.ts";
import { CATALOG } from "../../../gateway/catalog.ts";
import { gatewayConfigSchema } from "../../../gateway/config.ts";
import { FileKeyStore } from "../../../gateway/keys/file-key-store.ts";
import { TokenVerifier } from "../../../gateway/keys/tokens/token-verifier.ts";
import { MemoryLimitStore } from "../../../gateway/limits/memory-limit-store.ts";
import { Sealing } from "../../../gateway/sealing/sealing.ts";
import { buildServer } from "../../../gateway/server.ts";
import { Stats } from "../../../gateway/stats/stats.ts";
import { startTracing } from "../../../gateway/tracing/span-export.ts";
import { ClusterManager, type ClusterSurroundings } from "../../../gateway/upstream/cluster/cluster-manager.ts";
import { KeySeries } from "../../../gateway/usage/key-series.ts";
import { KeyUsage } from "../../../gateway/usage/key-usage.ts";
import { UsageBook } from "../../../gateway/usage/usage-store.ts";
import { becomes } from "../becomes.ts";
import { createKey } from "../processes/key-command.ts";

export type RunningGateway = Awaited<ReturnType<typeof startGateway>>;

/** Starts the real gateway on a free port, in front of `endpoints`. Resolves when every model has a healthy one. */
export async function startGateway(
  endpoints: readonly string[],
  overrides: Readonly<Record<string, unknown>> = {},
  surroundings: ClusterSurroundings = {},
  clock: Clock = systemClock,
) {
  const folder = await mkdtemp(join(tmpdir(), "svc-gateway-"));
  const keyFile = join(folder, "keys.json");
  const never = new AbortController().signal;
  const key = await createKey(keyFile);
  const config = checkConfig(
    gatewayConfigSchema,
    {
      listen: { port: 0 },
      keys: { file: keyFile },
      clusters: CATALOG.map(({ id }) => ({ model: id, endpoints: endpoints.map((address) => ({ address })) })),
      upstream: { wire: process.env.SVC_TEST_WIRE },
      ...overrides,
    },
    "test",
  );
  const lines: string[] = [];
  const log = pino(
    { level: "debug" },
    new Writable({
      write(chunk, _encoding, done) {
        lines.push(String(chunk));
        done();
      },
    }),
  );
  const stats = new Stats();
  const sealing = new Sealing();
  const keys = await FileKeyStore.open(keyFile, systemClock);
  const { jwt } = config.auth;
  const tokens = jwt && (await TokenVerifier.open({ settings: jwt, keys, clock: systemClock, onReload: () => {} }));
  const clusters = new ClusterManager(config.clusters, clock, log, { ...config.upstream, ...surroundings });
  const usage = new KeyUsage({
    store: new UsageBook(clock),
    series: new KeySeries(stats.registry, () => clock.nowMs()),
    clock,
  });
  const tracing = config.tracing && startTracing(config.tracing, log, systemClock.nowMs);
  const { app, sockets, webSockets, grpc, limiter, overload, traffic } = buildServer({
    config,
    keys,
    tokens,
    limitStore: new MemoryLimitStore(clock),
    usage,
    clusters,
    sealing,
    stats,
    clock,
    log,
    tracing,
    tls: config.listen.tls && followTls(config.listen.tls, systemClock, log, "listen.tls"),
    grpcTls: config.grpc?.tls && followTls(config.grpc.tls, systemClock, log, "grpc.tls"),
    hardStop: never,
    isLive: () => clusters.ready,
  });
  const { host, port: wanted } = config.listen;
  await app.listen({ host, port: wanted });
  const { port } = app.server.address() as AddressInfo;
  const grpcAddress = (await grpc?.listen()) ?? "";
  const baseUrl = `${config.listen.tls ? "https" : "http"}://127.0.0.1:${port}`;
  if (endpoints.length > 0) await untilHealthy(clusters);
  const authorization = `Bearer ${key}`;
  return {
    baseUrl,
    port,
    /** `host:port`; empty unless `grpc` is configured. */
    grpcAddress,
    grpc,
    key,
    keyFile,
    stats,
    keys,
    sealing,
    limiter,
    usage,
    overload,
    sockets,
    webSockets,
    traffic,
    clusters,
    routes: app.printRoutes({ commonPrefix: false }),
    log: lines,
    /** Makes a further key with these options of `keys create`. Resolves to its text once the gateway accepts it. */
    async createKey(...args: readonly string[]) {
      const made = await createKey(keyFile, ...args);
      // The file store loads a new key a moment later. Requests with it until then would count as failures of its network.
      await becomes(async () => keys.find(made) !== undefined, "the key is known");
      return made;
    },
    /** Sends a body as JSON, with the default key unless `headers` has another. */
    post: (path: string, body: unknown, headers: Record<string, string> = {}) =>
      fetch(`${baseUrl}${path}`, {
        method: "POST",
        headers: { authorization, "content-type": "application/json", ...headers },
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
    get: (path: string, headers: Record<string, string> = {}) =>
      fetch(`${baseUrl}${path}`, { headers: { authorization, ...headers } }),
    async stop() {
      app.server.close();
      sockets.destroyAll();
      await grpc?.close();
      clusters.close();
      tokens?.close();
      await keys.close();
      await usage.close();
      await tracing?.close();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

async function untilHealthy(clusters: ClusterManager): Promise<void> {
  while (!clusters.clusters.every((cluster) => cluster.healthyEndpoints.length > 0))
    await new Promise((resolve) => setTimeout(resolve, 5));
}
