import type { Logger } from "pino";
import type { Pems } from "../../../deploy/runtime/files/followed-file.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Resolve } from "../discovery/discovery.ts";
import { systemResolve } from "../discovery/dns-discovery.ts";
import type { Endpoint } from "../endpoint/endpoint.ts";
import { EndpointPool } from "../endpoint/endpoint-pool.ts";
import { type TlsSettings, UpstreamTls } from "../endpoint/upstream-tls.ts";
import { WorkLedger } from "../load-balancing/work-ledger.ts";
import type { WireKind } from "../wire/generate-wire.ts";
import { Cluster } from "./cluster.ts";
import type { ClusterConfig } from "./cluster-settings.ts";

export type ClusterSurroundings = {
  /** Resolves a host to addresses. Default: the system's resolver. */
  readonly resolve?: Resolve;
  readonly random?: () => number;
  /** The transport of Generate calls. Default: `grpc`. */
  readonly wire?: WireKind;
};

/** Owns all clusters and endpoints, finds the cluster of a model by its catalog id, and closes everything. */
export class ClusterManager {
  readonly #clusters: ReadonlyMap<string, Cluster>;
  readonly #prefill = new Map<string, Cluster>();
  readonly #pool: EndpointPool;
  /** The watched certificates by their set of files: each set is watched once. */
  readonly #tls = new Map<string, UpstreamTls>();
  /** The prefill work of all clusters: a node prefills for all its models in one queue. */
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
      const { model, prefill, expectedEndpoints: _, ...settings } = config;
      if (prefill) {
        const readers = { model, ...settings, ...prefill };
        this.#prefill.set(model, new Cluster(readers, { ...parts, tls, isPrefill: true }));
      }
      return [model, new Cluster(config, { ...parts, tls })] as const;
    });
    this.#clusters = new Map(clusters);
  }

  cluster(model: string): Cluster | undefined {
    return this.#clusters.get(model);
  }

  /** The cluster of nodes that read prompts for those of a model's cluster; undefined without. */
  prefill(model: string): Cluster | undefined {
    return this.#prefill.get(model);
  }

  /** All clusters, those of prefill nodes behind the others. */
  get clusters(): readonly Cluster[] {
    return [...this.#clusters.values(), ...this.#prefill.values()];
  }

  /** All open endpoints, including those that left their clusters with calls still running. */
  get endpoints(): readonly Endpoint[] {
    return this.#pool.endpoints;
  }

  get drained(): ReadonlySet<string> {
    return this.#pool.drained;
  }

  /** Drains the endpoints at these addresses in every cluster, later ones included, and resumes those at all others. */
  setDrained(addresses: ReadonlySet<string>): void {
    this.#pool.setDrained(addresses);
  }

  /** The certificates shown to endpoints, and the authorities of theirs. */
  get certificates(): readonly Pems[] {
    return [...this.#tls.values()].map(({ pems }) => pems);
  }

  /** Whether some cluster has a healthy endpoint. */
  get ready(): boolean {
    return [...this.#clusters.values()].some((cluster) => cluster.healthyEndpoints.length > 0);
  }

  /** Closes all clusters and endpoints, and ends their calls. */
  close(): void {
    for (const cluster of this.clusters) cluster.close();
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
