import type { Lifecycle } from "../../lifecycle.ts";
import type { ClusterManager } from "../../upstream/cluster-manager.ts";
import { type AdminReply, type AdminRoute, OK } from "./admin-route.ts";

/** What health is told from. */
export type HealthFacts = {
  /** The lifecycle of the gateway, which names its state. */
  readonly lifecycle: Lifecycle;
  /** The clusters, by which the gateway is initialized once some model can be served. */
  readonly clusters: ClusterManager;
  /**
   * Returns what operators should know although the gateway serves, a line each, such as that a store which it shares
   * with others is away. Default: there is nothing.
   */
  readonly notes?: () => readonly string[];
};

/** Makes the paths that say whether the gateway lives and whether it is to be sent requests; everybody may read them. */
export function healthRoutes({ lifecycle, clusters, notes = () => [] }: HealthFacts): readonly AdminRoute[] {
  const ready = (): AdminReply => {
    const state = lifecycle.state(clusters.ready);
    return { status: state === "LIVE" ? 200 : 503, body: [state, ...notes(), ""].join("\n") };
  };
  const reads = (path: string, help: string, handle: AdminRoute["handle"]): AdminRoute => ({
    path,
    does: "reads",
    open: true,
    help,
    handle,
  });
  return [
    reads("/healthz", "whether the process lives", () => ({ body: "ok\n" })),
    reads("/ready", "200 LIVE, or 503 DRAINING or PRE_INITIALIZING; then what is amiss, a line each", ready),
    reads("/readyz", "the same", ready),
  ];
}

/** Makes the paths that take the gateway out of service. */
export function stateRoutes(lifecycle: Lifecycle): readonly AdminRoute[] {
  const changes = (path: string, help: string, change: (query: URLSearchParams) => void): AdminRoute => ({
    path,
    does: "changes",
    help,
    handle({ query }) {
      change(query);
      return OK;
    },
  });
  return [
    changes("/healthcheck/fail", "say DRAINING on /ready from now on", () => lifecycle.failHealth(true)),
    changes("/healthcheck/ok", "take that back", () => lifecycle.failHealth(false)),
    changes("/drain_listeners", "take no new connections; ?graceful: after a while; the process stays", (query) =>
      lifecycle.drainListeners(query.has("graceful")),
    ),
    {
      path: "/quitquitquit",
      does: "changes",
      help: "end as at SIGTERM; a second time: at once",
      // With nothing to wait for, the process is gone before its answer.
      handle: () => ({ ...OK, afterwards: () => lifecycle.quit() }),
    },
  ];
}
