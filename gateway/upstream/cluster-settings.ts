import type { DnsSettings } from "./discovery/dns-discovery.ts";
import type { EndpointSpec } from "./discovery/endpoint-schema.ts";
import type { TlsSettings } from "./endpoint/upstream-tls.ts";
import type { HealthCheckSettings } from "./health/health-checker.ts";
import type { SlowStartSettings } from "./load-balancing/slow-start.ts";
import type { OutlierSettings } from "./outlier/outlier-detector.ts";
import type { AdaptiveLifoSettings } from "./queue/adaptive-lifo.ts";
import type { RetryBudgetSettings } from "./retry/retry-budget.ts";

export type LbPolicy = "prefix_affinity" | "least_request" | "ring_hash" | "round_robin" | "random";

/** Envoy's `circuit_breakers.thresholds`; what is absent follows the slots of the endpoints. */
export type CircuitBreakerSettings = {
  readonly maxRequests?: number | undefined;
  readonly maxPendingRequests?: number | undefined;
  readonly maxRequestsPerEndpoint?: number | undefined;
  readonly maxPendingRequestsPerKey: number;
  /** How long those who wait go on waiting while no endpoint is available. */
  readonly failfastMs: number;
  readonly adaptiveLifo: AdaptiveLifoSettings;
  readonly retryBudget: RetryBudgetSettings;
};

/** How one cluster is run, as configured; the defaults stand with the configuration. */
export type ClusterSettings = {
  readonly model: string;
  readonly lbPolicy: LbPolicy;
  readonly leastRequestLbConfig: { readonly choiceCount: number };
  readonly ringHashLbConfig: { readonly hashBalanceFactor: number };
  /** Percent. */
  readonly healthyPanicThreshold: number;
  /** Percent. */
  readonly overprovisioningFactor: number;
  readonly healthChecks: HealthCheckSettings;
  readonly outlierDetection: OutlierSettings;
  readonly circuitBreakers: CircuitBreakerSettings;
  readonly slowStart: SlowStartSettings;
  /** Absent: plain text. */
  readonly tls?: TlsSettings | undefined;
};

/** Where a cluster's endpoints come from. */
export type DiscoverySettings =
  | { readonly type: "static"; readonly endpoints: readonly EndpointSpec[] }
  | ({ readonly type: "strict_dns" } & DnsSettings)
  | { readonly type: "file"; readonly path: string };

export type ClusterConfig = ClusterSettings & DiscoverySettings;
