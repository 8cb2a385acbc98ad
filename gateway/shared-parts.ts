import type { Logger } from "pino";
import { ConfigError } from "../deploy/runtime/config/load-config.ts";
import { isLoopback } from "../deploy/runtime/net/loopback.ts";
import { systemClock } from "../deploy/runtime/time/clock.ts";
import type { GatewayConfig } from "./config.ts";
import { registerKeyGauges } from "./http/admin/gauges.ts";
import { FileKeyStore } from "./keys/file-key-store.ts";
import type { KeyStore } from "./keys/key-store.ts";
import { isKeyStoreError } from "./keys/key-store.ts";
import { RedisKeyStore } from "./keys/redis/redis-key-store.ts";
import { SharedRevision } from "./keys/redis/shared-revision.ts";
import type { TokenVerifier } from "./keys/tokens/token-verifier.ts";
import type { LimitStore } from "./limits/limit-store.ts";
import { MemoryLimitStore } from "./limits/memory-limit-store.ts";
import { RedisLimitStore } from "./limits/redis/redis-limit-store.ts";
import { RedisState } from "./state/redis-state.ts";
import type { RedisSettings } from "./state/state-settings.ts";
import type { Stats } from "./stats/stats.ts";
import { KeySeries } from "./usage/key-series.ts";
import { KeyUsage } from "./usage/key-usage.ts";
import { RedisUsage } from "./usage/redis-usage.ts";
import { UsageBook } from "./usage/usage-store.ts";

/**
 * Opens the keys, the counts of their limits and of usage, in this process or in the store that gateways share (`state`).
 */
export async function openShared(config: GatewayConfig, stats: Stats, log: Logger) {
  const state = await openState(config, log);
  const limits: OpenLimits = state
    ? await openSharedLimits(state, stats, log)
    : { store: new MemoryLimitStore(systemClock) };
  const { keys, loaded: keysLoaded } = await openKeys(config, state, stats, log);
  // The caller awaits this promise once all other parts are open.
  keysLoaded.catch(() => {});
  const tokens = await openTokens(config, keys, log);
  const usage = openUsage(state, stats);
  return {
    keys,
    keysLoaded,
    tokens,
    limitStore: limits.store,
    usage,
    state,
    notes: () => [
      ...(keys.status().loadedAtMs === 0
        ? ["keys: the shared store is unreachable; the public listener is closed"]
        : []),
      ...(tokens?.everRead === false ? ["tokens: the keys of the issuer were never read; no token is accepted"] : []),
      ...(limits.notes?.() ?? []),
    ],
    async close() {
      tokens?.close();
      await keys.close();
      await usage.close();
      await limits.close?.();
      state?.close();
    },
  };
}

type OpenLimits = { readonly store: LimitStore; notes?(): readonly string[]; close?(): Promise<void> };

/** Connects to the store that gateways share, if configured. Throws `ConfigError`. */
async function openState({ state: { redis } }: GatewayConfig, log: Logger): Promise<RedisState | undefined> {
  if (!redis) return undefined;
  warnOfPlainText(redis, log);
  const state = new RedisState({ settings: redis, clock: systemClock });
  await state.connect();
  return state;
}

/** Warns once if a password is sent to a store on another machine in plain text. */
function warnOfPlainText({ url, passwordFile }: RedisSettings, log: Logger): void {
  const { protocol, hostname, host, password } = new URL(url);
  if (protocol === "rediss:" || isLoopback(hostname) || (!password && passwordFile === undefined)) return;
  log.warn(
    { address: host },
    "the password of the shared store is sent in plain text: state.redis.url is not rediss://",
  );
}

async function openSharedLimits(state: RedisState, stats: Stats, log: Logger): Promise<OpenLimits> {
  const { whenAway } = state.settings;
  const does =
    whenAway === "share" ? "this gateway applies its share of each limit" : "requests with limits are refused";
  const store = await RedisLimitStore.open({
    state,
    clock: systemClock,
    onAway: (fault) => log.error({ fault }, `the store of limits is unreachable: ${does}`),
    onBack: () => log.info("the store of limits is reachable again"),
  });
  stats.read({ svc_ratelimit_store_up: () => Number(store.state.shared) });
  return {
    store,
    notes: () => (store.state.shared ? [] : [`limits: the shared store is unreachable; ${does}`]),
    close: () => store.close(),
  };
}

function openUsage(state: RedisState | undefined, stats: Stats) {
  const series = new KeySeries(stats.registry, systemClock.nowMs);
  const store = state ? new RedisUsage(state, systemClock) : new UsageBook(systemClock);
  return new KeyUsage({ store, series, clock: systemClock });
}

/**
 * The keys, and a promise of their loading: at once, or once the shared store is reachable again. `loaded` rejects with
 * `ConfigError` if its keys are unusable.
 */
type OpenKeys = { readonly keys: KeyStore; readonly loaded: Promise<void> };

async function openKeys(
  config: GatewayConfig,
  state: RedisState | undefined,
  stats: Stats,
  log: Logger,
): Promise<OpenKeys> {
  const { keys, loaded } = await readKeys(config.keys, state);
  if (keys.status().fault === "unreachable")
    log.error(
      { fault: "unreachable" },
      "the store of keys is unreachable: the public listener stays closed until it answers",
    );
  let { wentBack: lastBack } = keys.status();
  keys.onChange(({ keys: count, revision, fault, refused, wentBack }) => {
    if (wentBack > lastBack)
      log.error(
        { keys: count, revision },
        "the store of keys has lost changes that were in use here; those that it lacks are put back",
      );
    lastBack = wentBack;
    if (fault === "records_refused")
      log.error({ fault, revision, refused: refused.slice(0, 20) }, "some records of the store of keys are refused");
    else if (fault) log.error({ fault }, "the newest keys cannot be used; the last good ones stay");
    else log.info({ keys: count, revision }, "keys loaded");
  });
  registerKeyGauges(stats, () => keys.status());
  return { keys, loaded };
}

async function openTokens(
  { auth: { jwt } }: GatewayConfig,
  keys: KeyStore,
  log: Logger,
): Promise<TokenVerifier | undefined> {
  if (!jwt) return undefined;
  const onReload = (fault: string | undefined, everRead: boolean) => {
    const becomes = everRead ? "; the last good ones stay" : ", and never were: no token is accepted until they are";
    if (fault) log.error({ fault }, `the keys of the tokens' issuer cannot be used${becomes}`);
    else log.info("keys of the tokens' issuer loaded");
  };
  const { TokenVerifier: Verifier } = await import("./keys/tokens/token-verifier.ts");
  return await Verifier.open({ settings: jwt, keys, clock: systemClock, onReload });
}

/**
 * Reads the keys. Throws `ConfigError` if there are none: a gateway without keys would refuse every request, which its
 * operator must notice.
 */
async function readKeys({ file, redis }: GatewayConfig["keys"], state: RedisState | undefined): Promise<OpenKeys> {
  const cannotUse = (error: unknown): never => {
    if (!isKeyStoreError(error)) throw error;
    const [where, command] =
      file === undefined ? ["keys.redis", "--config this-file"] : ["keys.file", `--file ${file}`];
    const hint = error.fault === "missing" ? `; 'npm run keys -- create ${command} …' makes one` : "";
    throw new ConfigError(`${where}: ${error.message}${hint}`, { cause: error });
  };
  try {
    if (file !== undefined) {
      const shared = state && new SharedRevision(state);
      return { keys: await FileKeyStore.open(file, systemClock, shared), loaded: Promise.resolve() };
    }
    if (!redis || !state) throw new ConfigError("keys: expected one of file and redis");
    const keys = await RedisKeyStore.open({ state, pepperFile: redis.pepperFile, clock: systemClock });
    const loaded = keys.loaded.catch(cannotUse);
    // It is awaited once all other parts are open.
    loaded.catch(() => {});
    return { keys, loaded };
  } catch (error) {
    return cannotUse(error);
  }
}
