import type { Logger } from "pino";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { Cluster } from "./cluster.ts";
import type { ClusterConfig } from "./cluster-settings.ts";
import { type Resolve, systemResolve } from "./discovery/resolve.ts";
import type { Endpoint } from "./endpoint/endpoint.ts";
import { EndpointPool } from "./endpoint/endpoint-pool.ts";
import { type TlsSettings, UpstreamTls } from "./endpoint/upstream-tls.ts";
import { WorkLedger } from "./load-balancing/work-ledger.ts";
import type { WireKind } from "./wire/wire-settings.ts";

/** What all clusters have in common: the wire, and what tests put their own in place of. */
export type ClusterSurroundings = {
  /** Looks up the addresses of a host. Default: the system's resolver. */
  readonly resolve?: Resolve;
  /** Returns a random number that is even over [0, 1). Default: `Math.random`. */
  readonly random?: () => number;
  /** What carries the calls that generate. Default: `grpc`. */
  readonly wire?: WireKind;
};

/**
 * Owns all clusters and endpoints: it finds the cluster of a model by its catalog id, and everything below closes with
 * it.
 */
export class ClusterManager {
  readonly #clusters: ReadonlyMap<string, Cluster>;
  readonly #pool: EndpointPool;
  /** The followed certificates by their set of files: each set is followed once. */
  readonly #tls = new Map<string, UpstreamTls>();
  /** The prefill work of all clusters: a node prefills for all its models in one row. */
  readonly work = new WorkLedger();

  /** Opens all clusters. Throws `PemError` when the certificates of a cluster cannot be used. */
  constructor(configs: readonly ClusterConfig[], clock: Clock, log: Logger, surroundings: ClusterSurroundings = {}) {
    const { resolve = systemResolve(), random = Math.random, wire = "grpc" } = surroundings;
    const { work } = this;
    const pool = new EndpointPool({ clock, random, log, wire, onGone: (address) => work.forget(address) });
    this.#pool = pool;
    const parts = { pool, work, clock, random, resolve, log };
    const clusters = configs.map((config, index) => {
      const tls = config.tls && this.#tlsOf(config.tls, `clusters.${index}.tls`, clock, log);
      return [config.model, new Cluster(config, { ...parts, tls })] as const;
    });
    this.#clusters = new Map(clusters);
  }

  /** Returns the cluster of a model; undefined when the model has none. */
  cluster(model: string): Cluster | undefined {
    return this.#clusters.get(model);
  }

  /** All clusters, in the order of the configuration. */
  get clusters(): readonly Cluster[] {
    return [...this.#clusters.values()];
  }

  /** All open endpoints, with those that have left their clusters while calls still run on them. */
  get endpoints(): readonly Endpoint[] {
    return this.#pool.endpoints;
  }

  /** The addresses that are drained by hand, those without an endpoint included. */
  get drained(): ReadonlySet<string> {
    return this.#pool.drained;
  }

  /**
   * Has the endpoints at these addresses get no new requests from any cluster, those that come later included, and the
   * endpoints at all other addresses get them again.
   */
  setDrained(addresses: ReadonlySet<string>): void {
    this.#pool.setDrained(addresses);
  }

  /** Whether some cluster has a healthy endpoint, so that some model can be served. */
  get ready(): boolean {
    return this.clusters.some((cluster) => cluster.healthyEndpoints.length > 0);
  }

  /** Closes all clusters and endpoints, and ends the calls that run on them. */
  close(): void {
    for (const cluster of this.#clusters.values()) cluster.close();
    this.#pool.close();
    for (const tls of this.#tls.values()) tls.close();
  }

  #tlsOf(settings: TlsSettings, path: string, clock: Clock, log: Logger): UpstreamTls {
    const { caFile, certFile, keyFile } = settings;
    const files = JSON.stringify([caFile, certFile, keyFile]);
    const onReload = (fault: string | undefined) => {
      if (fault === undefined) log.info({ tls: path }, "certificates loaded; new connections use them");
      else log.error({ tls: path, fault }, "certificates cannot be used; the last good ones stay");
    };
    const tls = this.#tls.get(files) ?? new UpstreamTls({ settings, path, clock, onReload });
    this.#tls.set(files, tls);
    return tls;
  }
}
