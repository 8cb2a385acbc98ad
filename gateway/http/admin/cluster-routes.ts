import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { ClusterManager } from "../../upstream/cluster/cluster-manager.ts";
import type { EndpointOrder, EndpointOrders } from "../../upstream/endpoint-orders.ts";
import {
  type AdminReply,
  type AdminRequest,
  type AdminRoute,
  badRequest,
  changes,
  jsonReply,
  OK,
  reads,
  wantsJson,
} from "./admin-route.ts";

export type EndpointStatus = {
  readonly address: string;
  /** The reasons why the endpoint gets no requests, in Envoy's terms; empty for a healthy one. */
  readonly healthFlags: readonly string[];
  readonly healthFailure: string | undefined;
  readonly rqActive: number;
  readonly rqTotal: number;
  readonly rqError: number;
  readonly rqContinued: number;
  readonly weight: number;
  /** From here on as the node reports it, for all gateways; 0 without a report. */
  readonly slots: number;
  readonly running: number;
  readonly waiting: number;
  /** Fraction of the KV memory in use, 0 to 1. */
  readonly kvUse: number;
  /** Of all its generations together. */
  readonly tokensPerSecond: number;
  /** The predicted prompt tokens sent by this gateway and not prefilled yet. */
  readonly outstandingPrefillTokens: number;
  readonly ejectedForMs: number | undefined;
};

export type ClusterStatus = {
  readonly model: string;
  readonly lbPolicy: string;
  readonly endpoints: readonly EndpointStatus[];
};

/** Returns all clusters as they are at `nowMs`, in monotonic milliseconds. */
export function clusterStatuses({ clusters }: ClusterManager, nowMs: number): readonly ClusterStatus[] {
  return clusters.map(({ name, settings, members, outliers }) => ({
    model: name,
    lbPolicy: settings.lbPolicy,
    endpoints: members.map((member): EndpointStatus => {
      const { address, calls } = member;
      return {
        address,
        healthFlags: member.healthFlags(nowMs),
        healthFailure: member.healthFailure,
        rqActive: calls.active,
        rqTotal: calls.total,
        rqError: calls.failed,
        rqContinued: calls.continued,
        weight: member.weight,
        slots: member.slots,
        running: member.running,
        waiting: member.waiting,
        kvUse: member.kvUse,
        tokensPerSecond: member.running * (member.decodeTokensPerSecond ?? 0),
        outstandingPrefillTokens: Math.round(member.outstandingPrefillTokens),
        ejectedForMs: member.ejected ? Math.max(0, (outliers.ejectedUntilMs(address) ?? nowMs) - nowMs) : undefined,
      };
    }),
  }));
}

/** The reply to an order that is applied only here, as the shared store is unreachable. */
const HERE: AdminReply = { status: 202, body: "OK here; other gateways follow when the shared store is back\n" };

/** The duration of an ejection by hand without a time in the order, in seconds: time to inspect the endpoint. */
const EJECT_SECONDS = 300;
/** The longest ejection by hand, in seconds: a drain serves for more. */
const MOST_EJECT_SECONDS = 86_400;

/** Makes `/clusters`, as Envoy prints it, and the orders about an address, for all gateways that share a store. */
export function clusterRoutes(clusters: ClusterManager, orders: EndpointOrders, clock: Clock): readonly AdminRoute[] {
  const change = (order: EndpointOrder["order"], help: string) =>
    changes(`/endpoint/:address/${order}`, help, async (request): Promise<AdminReply> => {
      const { address = "" } = request.params;
      const given = orderOf(order, address, request);
      if (!given) return badRequest(`expected seconds from 1 to ${MOST_EJECT_SECONDS}`);
      // An endpoint that has left its clusters can still be undrained, so that it is not drained when it comes back.
      const known =
        clusters.drained.has(address) || clusters.endpoints.some((endpoint) => endpoint.address === address);
      if (!known) return { status: 404, body: "no such endpoint\n" };
      return (await orders.give(given)) ? OK : HERE;
    });
  return [
    reads("/clusters", "clusters and their endpoints; ?format=json", (request) => {
      const statuses = clusterStatuses(clusters, clock.nowMs());
      if (wantsJson(request)) return jsonReply({ cluster_statuses: statuses.map(clusterJson) });
      return { body: clustersText(statuses) };
    }),
    change("drain", "give it no new requests, in any cluster, from any gateway that shares the store"),
    change("undrain", "take that back"),
    change(
      "eject",
      `eject it, in any cluster, at all gateways that share the store; ?seconds= says for how long, ${EJECT_SECONDS} by default`,
    ),
    change("uneject", "end its ejection, in all clusters of all gateways that share the store"),
  ];
}

/** Returns the order of a request about an address; undefined if its time is invalid. */
function orderOf(order: EndpointOrder["order"], address: string, { query }: AdminRequest): EndpointOrder | undefined {
  if (order !== "eject") return { order, address };
  const seconds = Number(query.get("seconds") ?? EJECT_SECONDS);
  if (!Number.isInteger(seconds) || seconds < 1 || seconds > MOST_EJECT_SECONDS) return undefined;
  return { order, address, forMs: seconds * 1_000 };
}

/** Returns the state of clusters as text: one `cluster::endpoint::name::value` a line. */
export function clustersText(statuses: readonly ClusterStatus[]): string {
  const lines = statuses.flatMap(({ model, lbPolicy, endpoints }) => [
    `${model}::observability_name::${model}`,
    `${model}::lb_policy::${lbPolicy}`,
    ...endpoints.flatMap((endpoint) =>
      endpointValues(endpoint).map(([name, value]) => `${model}::${endpoint.address}::${name}::${value}`),
    ),
  ]);
  return lines.map((line) => `${line}\n`).join("");
}

function endpointValues(endpoint: EndpointStatus): readonly (readonly [string, string | number])[] {
  return [
    ["rq_active", endpoint.rqActive],
    ["rq_total", endpoint.rqTotal],
    ["rq_error", endpoint.rqError],
    ["rq_continued", endpoint.rqContinued],
    ["health_flags", endpoint.healthFlags.join("") || "healthy"],
    ...(endpoint.healthFailure === undefined ? [] : [["health_failure", endpoint.healthFailure] as const]),
    ["weight", endpoint.weight],
    ["slots", endpoint.slots],
    ["running", endpoint.running],
    ["waiting", endpoint.waiting],
    ["kv_use", endpoint.kvUse.toFixed(3)],
    ["outstanding_prefill_tokens", endpoint.outstandingPrefillTokens],
  ];
}

/** Returns a cluster as Envoy's `ClusterStatus`; the load that a node reports is under `load`. */
function clusterJson({ model, lbPolicy, endpoints }: ClusterStatus) {
  return { name: model, observability_name: model, lb_policy: lbPolicy, host_statuses: endpoints.map(hostJson) };
}

function hostJson(endpoint: EndpointStatus) {
  const flags = new Set(endpoint.healthFlags);
  const colon = endpoint.address.lastIndexOf(":");
  return {
    address: {
      socket_address: {
        address: endpoint.address.slice(0, colon),
        port_value: Number(endpoint.address.slice(colon + 1)),
      },
    },
    stats: [
      { name: "rq_active", type: "GAUGE", value: endpoint.rqActive },
      { name: "rq_total", type: "COUNTER", value: endpoint.rqTotal },
      { name: "rq_error", type: "COUNTER", value: endpoint.rqError },
      { name: "rq_continued", type: "COUNTER", value: endpoint.rqContinued },
    ],
    health_status: {
      eds_health_status: "HEALTHY",
      ...(flags.has("/failed_active_hc") && { failed_active_health_check: true }),
      ...(flags.has("/failed_outlier_check") && { failed_outlier_check: true }),
      ...(flags.has("/draining") && { draining: true }),
      ...(flags.has("/version_mismatch") && { version_mismatch: true }),
      ...(endpoint.healthFailure !== undefined && { health_failure: endpoint.healthFailure }),
    },
    weight: endpoint.weight,
    load: {
      slots: endpoint.slots,
      running: endpoint.running,
      waiting: endpoint.waiting,
      kv_use: endpoint.kvUse,
      outstanding_prefill_tokens: endpoint.outstandingPrefillTokens,
      ...(endpoint.ejectedForMs !== undefined && { ejected_for_ms: Math.round(endpoint.ejectedForMs) }),
    },
  };
}
