import { Cluster, Redis, type RedisOptions } from "ioredis";
import { ConfigError } from "../../deploy/runtime/config/load-config.ts";
import { FileError } from "../../deploy/runtime/files/file-error.ts";
import { FollowedPems, PemError, type PemFile } from "../../deploy/runtime/files/followed-pems.ts";
import { readPrivateFileSync } from "../../deploy/runtime/files/private-file.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { RedisSettings } from "./state-settings.ts";

/** A connection to the store, or to each node of a Cluster. */
export type RedisClient = Redis | Cluster;

/** Longest time between two connection attempts, in milliseconds. */
const MAX_RETRY_MS = 1_000;
/** Redirections of one command in a Cluster. */
const MAX_REDIRECTIONS = 3;
const CLUSTER_RETRY_MS = 100;

/** Makes clients of one store, and follows the certificate files until it is closed. */
export type RedisClients = {
  /** Makes a client, which does not connect yet. */
  make(): RedisClient;
  /** Stops following the files. */
  close(): void;
};

/**
 * Prepares clients with these settings. `onReload` receives undefined when changed certificates are in use for new
 * connections, else why they are unusable. Throws `ConfigError` if a file is unusable.
 */
export function redisClients(
  settings: RedisSettings,
  clock: Pick<Clock, "after">,
  onReload: (fault: string | undefined) => void,
): RedisClients {
  const { sentinel } = settings;
  const pems = followPems(settings, clock, onReload);
  const password = passwordOf(settings, "state.redis");
  const sentinelPassword = sentinel && passwordOf(sentinel, "state.redis.sentinel");
  const common = (): Common => ({
    ...{ username: settings.username, password, connectTimeout: settings.connectTimeoutMs },
    ...(settings.tls && { tls: tlsOptions(settings.tls.serverName, pems) }),
    // The caller handles commands that are not sent at once, or have no answer when the connection breaks.
    ...{ enableOfflineQueue: false, autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 },
    ...{ db: settings.database, lazyConnect: true, retryStrategy },
    // A master that became a replica must not be asked any more.
    reconnectOnError: (error: Error) => error.message.startsWith("READONLY"),
  });
  return {
    make() {
      const servers = settings.addresses.map(hostAndPort);
      if (settings.cluster) return makeCluster(settings, servers, common());
      if (!sentinel) return new Redis({ ...common(), ...servers[0] });
      return new Redis({
        ...common(),
        ...{ name: sentinel.name, sentinels: servers, sentinelUsername: sentinel.username, sentinelPassword },
        ...{ sentinelRetryStrategy: retryStrategy, sentinelCommandTimeout: settings.connectTimeoutMs },
        ...(settings.tls && {
          sentinelTLS: tlsOptions(settings.tls.serverName, pems),
          enableTLSForSentinelMode: true,
        }),
      });
    },
    close: () => pems?.close(),
  };
}

function makeCluster(settings: RedisSettings, servers: readonly Server[], common: Common) {
  const { retryStrategy: _own, enableOfflineQueue: _queue, db: _db, ...redisOptions } = common;
  return new Cluster([...servers], {
    ...{ redisOptions, enableOfflineQueue: false, lazyConnect: true, clusterRetryStrategy: retryStrategy },
    ...{ maxRedirections: MAX_REDIRECTIONS, slotsRefreshTimeout: settings.connectTimeoutMs },
    ...{ retryDelayOnFailover: CLUSTER_RETRY_MS, retryDelayOnClusterDown: CLUSTER_RETRY_MS },
    // Certificates name hosts, whereas a Cluster may announce addresses only.
    ...(settings.tls && { dnsLookup: (host: string, found: LookedUp) => found(null, host) }),
  });
}

type Server = { readonly host: string; readonly port: number };

/** Options of clients for any kind of store. */
type Common = Pick<RedisOptions, "username" | "password" | "tls"> & {
  readonly connectTimeout: number;
  readonly enableOfflineQueue: boolean;
  readonly autoResendUnfulfilledCommands: boolean;
  readonly maxRetriesPerRequest: number;
  readonly db: number;
  readonly lazyConnect: boolean;
  readonly retryStrategy: typeof retryStrategy;
  readonly reconnectOnError: (error: Error) => boolean;
};

type LookedUp = (error: null, address: string) => void;

function retryStrategy(times: number): number {
  return Math.min(100 * times, MAX_RETRY_MS);
}

function hostAndPort(address: string): Server {
  const colon = address.lastIndexOf(":");
  return { host: address.slice(0, colon).replace(/^\[|\]$/g, ""), port: Number(address.slice(colon + 1)) };
}

/** Returns options that read the certificates for each connection, because they may have changed. */
function tlsOptions(serverName: string | undefined, pems: FollowedPems | undefined): NonNullable<RedisOptions["tls"]> {
  return {
    ...(serverName !== undefined && { servername: serverName }),
    minVersion: "TLSv1.2",
    get ca() {
      return pems?.now.ca;
    },
    get cert() {
      return pems?.now.cert;
    },
    get key() {
      return pems?.now.key;
    },
  };
}

function followPems(
  { tls }: RedisSettings,
  clock: Pick<Clock, "after">,
  onReload: (fault: string | undefined) => void,
): FollowedPems | undefined {
  const named: readonly PemFile[] = [
    { part: "ca", key: "caFile", file: tls?.caFile },
    { part: "cert", key: "certFile", file: tls?.certFile },
    { part: "key", key: "keyFile", file: tls?.keyFile },
  ];
  const [first, ...rest] = named.flatMap(({ file, ...pem }) => (file === undefined ? [] : [{ ...pem, file }]));
  if (!first) return undefined;
  try {
    return new FollowedPems({ at: "state.redis.tls", files: [first, ...rest], clock, onReload });
  } catch (cause) {
    if (cause instanceof PemError) throw new ConfigError(cause.message, { cause });
    throw cause;
  }
}

function passwordOf(
  { password, passwordFile }: { readonly password?: string | undefined; readonly passwordFile?: string | undefined },
  at: string,
): string | undefined {
  if (passwordFile === undefined) return password;
  try {
    const text = readPrivateFileSync(passwordFile)?.toString("utf8").trim();
    if (text) return text;
  } catch (cause) {
    if (!(cause instanceof FileError)) throw cause;
    throw new ConfigError(`${at}.passwordFile: ${cause.message}`, { cause });
  }
  throw new ConfigError(`${at}.passwordFile: ${passwordFile} is missing or empty`);
}
