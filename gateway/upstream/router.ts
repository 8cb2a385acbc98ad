import { AttemptLoop, type AttemptLoopParts, type Dispatch, type Prefill } from "./attempt-loop.ts";
import type { Cluster } from "./cluster/cluster.ts";
import type { ClusterManager } from "./cluster/cluster-manager.ts";
import { ClusterTraffic } from "./cluster/cluster-traffic.ts";
import type { Ejection } from "./endpoint/outlier-detector.ts";
import { LocalReplies } from "./local-replies.ts";
import { LEAST_MOVED_TOKENS, PrefillPool } from "./prefill/prefill-pool.ts";
import { DeathCounter } from "./retry/death-counter.ts";
import { TokenCounter } from "./token-counter.ts";

/** The time for a node to end a lease, in milliseconds. */
const END_LEASE_MS = 5_000;

export type RouterOptions = Omit<AttemptLoopParts, "deaths" | "replies"> & {
  readonly clusters: ClusterManager;
  /** The unread tokens above which a prefill node reads a prompt. Default: `LEAST_MOVED_TOKENS`. */
  readonly leastMovedTokens?: number;
};

/**
 * Sends a request to an endpoint of its model's cluster. Until the first delta a failed attempt is repeated on another
 * endpoint, within the cluster's retry budget; from then on another endpoint continues the answer where both can.
 * Otherwise the answer fails with its endpoint.
 */
export class Router {
  readonly tokenCounter: TokenCounter;
  readonly #parts: AttemptLoopParts;
  readonly #traffic: ReadonlyMap<string, ClusterTraffic>;
  readonly #prefill = new Map<string, Prefill>();

  constructor({ clusters, leastMovedTokens = LEAST_MOVED_TOKENS, ...options }: RouterOptions) {
    const { clock, random, stats } = options;
    const deaths = new DeathCounter(clock);
    this.#parts = { ...options, deaths, replies: new LocalReplies(stats, random) };
    const trafficOf = (cluster: Cluster) => {
      const onEjection = ({ enforced }: Ejection) =>
        stats.ejections.inc({ cluster: cluster.name, enforced: String(enforced) });
      return new ClusterTraffic(cluster, clusters.work, clock, random, onEjection);
    };
    const answering = clusters.clusters.filter((cluster) => clusters.cluster(cluster.model) === cluster);
    this.#traffic = new Map(answering.map((cluster) => [cluster.model, trafficOf(cluster)]));
    for (const cluster of answering) {
      const readers = clusters.prefill(cluster.model);
      if (!readers) continue;
      const traffic = trafficOf(readers);
      this.#prefill.set(cluster.model, { traffic, pool: new PrefillPool(cluster, traffic, leastMovedTokens) });
    }
    this.tokenCounter = new TokenCounter(this.#traffic, this.#parts);
  }

  get traffic(): readonly ClusterTraffic[] {
    return [...this.#traffic.values()];
  }

  /** Ends the lease of a prompt, by its digest, on the endpoint that has answered it. */
  endLease(model: string, address: string, digest: string): void {
    const { endpoints = [] } = this.#traffic.get(model)?.cluster ?? {};
    const deadline = this.#parts.clock.wallMs() + END_LEASE_MS;
    endpoints.find((one) => one.address === address)?.endLease(Buffer.from(digest, "base64url"), deadline);
  }

  /** Resolves when the answer is complete, and rejects with `ApiError`; aborting the signal ends the attempts. */
  dispatch(dispatch: Dispatch, signal: AbortSignal): Promise<void> {
    const { model } = dispatch.facts;
    const traffic = this.#traffic.get(model);
    if (!traffic) return Promise.reject(new Error("a model without a cluster is refused before"));
    return new AttemptLoop(dispatch, { traffic, prefill: this.#prefill.get(model) }, this.#parts, signal).run();
  }
}
