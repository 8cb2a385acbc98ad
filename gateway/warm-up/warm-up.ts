import { randomBytes } from "node:crypto";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { type Logger, pino } from "pino";
import { Registry } from "prom-client";
import { keepCompiled } from "../../deploy/runtime/process/compile-cache.ts";
import { linkAbort } from "../../deploy/runtime/time/abort.ts";
import { type Clock, systemClock } from "../../deploy/runtime/time/clock.ts";
import type { GatewayConfig } from "../config.ts";
import { createKey, type KeyRequest } from "../keys/key-admin.ts";
import { makePepper, PEPPER_BYTES } from "../keys/key-digest.ts";
import { indexKeys, type KeyIndex } from "../keys/key-index.ts";
import { EMPTY_KEY_SET } from "../keys/key-record.ts";
import type { KeyStore } from "../keys/key-store.ts";
import { MemoryLimitStore } from "../limits/memory-limit-store.ts";
import { Sealing } from "../sealing/sealing.ts";
import { buildServer } from "../server.ts";
import { Stats } from "../stats/stats.ts";
import { ClusterManager } from "../upstream/cluster-manager.ts";
import { clustersSchema } from "../upstream/cluster-settings.ts";
import { KeySeries } from "../usage/key-series.ts";
import { KeyUsage } from "../usage/key-usage.ts";
import { UsageBook } from "../usage/usage-book.ts";
import { exercises } from "./exercises.ts";
import { startLoopbackNode } from "./loopback-node.ts";
import { callUntilDone } from "./warm-up-caller.ts";

/** The requests after which code has been compiled that runs for each of them; Node 20 takes some thousand. */
const REQUESTS = 4_000;
/** The connections that ask at once: enough that none waits for the loopback node alone. */
const CONNECTIONS = 8;
/** The time between two looks at whether the loopback node is healthy, in milliseconds. */
const LOOK_MS = 2;
/**
 * The bytes of bytecode that are executed before V8 looks whether to make machine code of a function, as it is by itself
 * and while a process is exercised. What is compiled sooner has seen fewer kinds of values, and these come in all their
 * kinds again and again.
 */
const BUDGET_BYTES = { usually: 67_584, warmingUp: 8_192 } as const;
/** Later versions (from Node 22 on) count calls in its place, and have a compiler between, which leaves nothing to gain. */
const HAS_BUDGET = Number.parseInt(process.versions.v8, 10) < 12;
/** Limits that are kept count of and never reached. */
const LIMITS = { rpm: 1_000_000_000, itpm: 1_000_000_000, otpm: 1_000_000_000, concurrency: 1_000_000 };

/** What a warm-up needs. */
export type WarmUpOptions = {
  /** The configuration of the gateway, whose own paths are exercised. */
  readonly config: GatewayConfig;
  /** The log that gets one line of how it went. */
  readonly log: Logger;
  /** The signal that ends it early. */
  readonly stop: AbortSignal;
};

/**
 * Exercises the gateway's own paths, so that the first callers of a new process are served as fast as later ones: a
 * second gateway in the same process, of the same configuration, answers requests in all formats in front of a node
 * that answers at once. Keys, counts, limits, logs and clusters are its own, so nothing of it is left but compiled code, which
 * is kept for the next process where Node can keep it. It takes `warmUpMs` at most, and some 0.1 s more where the code is
 * kept for the first time. It never rejects: a gateway that could not be warmed serves all the same.
 */
export async function warmUp({ config, log, stop }: WarmUpOptions): Promise<void> {
  const { warmUpMs } = config;
  if (warmUpMs === 0 || stop.aborted) return;
  const beganMs = performance.now();
  const { signal: over, release } = linkAbort(stop, AbortSignal.timeout(warmUpMs));
  compileAfter(BUDGET_BYTES.warmingUp);
  try {
    const requests = await exercise(config, over);
    keepCompiled();
    log.info({ requests, ms: Math.round(performance.now() - beganMs) }, "warmed up");
  } catch (error) {
    if (!over.aborted) log.warn({ err: error }, "the gateway could not be warmed up; first requests take longer");
  } finally {
    compileAfter(BUDGET_BYTES.usually);
    release();
  }
}

function compileAfter(budgetBytes: number): void {
  if (HAS_BUDGET) setFlagsFromString(`--interrupt-budget=${budgetBytes}`);
}

/** Asks a gateway of the same configuration until enough was asked, or `over` is aborted. Resolves to how often. */
async function exercise(config: GatewayConfig, over: AbortSignal): Promise<number> {
  const clock = systemClock;
  const model = config.catalog.models[0]?.id ?? "";
  const silent = pino({ level: config.log.level, base: null }, { write() {} });
  const node = await startLoopbackNode(model);
  const endpoints = [{ address: node.address }];
  const clusters = new ClusterManager(clustersSchema.parse([{ model, endpoints }]), clock, silent, config.upstream);
  const stats = new Stats(new Registry());
  const { key, keys } = oneKey(clock);
  const ended = new AbortController();
  const usage = new KeyUsage({
    store: new UsageBook(clock),
    series: new KeySeries(stats.registry, config.stats.keySeries, clock.nowMs),
    clock,
  });
  const { grpc: _, tracing: __, ...rest } = config;
  const { app, sockets } = buildServer({
    config: rest,
    ...{ keys, clusters, stats, clock, usage, log: silent },
    limitStore: new MemoryLimitStore(clock),
    sealing: new Sealing(),
    hardStop: ended.signal,
  });
  try {
    // Workers would share the port.
    await app.listen({ host: "127.0.0.1", port: 0, exclusive: true });
    const { port } = app.server.address() as AddressInfo;
    while (!clusters.ready) await sleep(LOOK_MS, undefined, { signal: over });
    const texts = exercises(model, key);
    let asked = 0;
    const next = () => {
      if (asked >= REQUESTS || over.aborted) return undefined;
      asked += 1;
      return texts[asked % texts.length];
    };
    await callUntilDone({ port, connections: CONNECTIONS, next });
    return asked;
  } finally {
    ended.abort();
    app.server.close();
    sockets.destroyAll();
    await app.close();
    clusters.close();
    node.close();
    await usage.close();
  }
}

/** Makes a key that exists in this warm-up alone, and the store that knows it. */
function oneKey(clock: Clock): { readonly key: string; readonly keys: KeyStore } {
  const pepper = makePepper(randomBytes(PEPPER_BYTES));
  const request: KeyRequest = {
    name: "warm-up",
    owner: null,
    env: "live",
    models: "all",
    limits: LIMITS,
    quota: {},
    priority: "DEFAULT",
    weight: 1,
    expiresAtMs: null,
  };
  const { set, value } = createKey(EMPTY_KEY_SET, request, { pepper, nowMs: clock.wallMs(), random: randomBytes });
  const index: KeyIndex = indexKeys(set, pepper, "live");
  return { key: value.key, keys: storeOf(index, clock) };
}

/** Returns a store whose keys never change. */
function storeOf(index: KeyIndex, clock: Clock): KeyStore {
  const counts = { active: 1, disabled: 0, revoked: 0 };
  return {
    find(presented) {
      const found = index.look(presented, clock.wallMs());
      return "principal" in found ? found.principal : undefined;
    },
    byId: (id) => index.byId(id),
    inForce: (id) => index.inForce(id, clock.wallMs()),
    mustEnd: (id) => index.mustEnd(id),
    status: () => ({
      ...{ keys: 1, counts, revision: 1, loadedAtMs: clock.wallMs(), loadErrors: 0, fault: undefined },
      ...{ refused: [], wentBack: 0 },
    }),
    onChange: () => () => {},
    async close() {},
  };
}
