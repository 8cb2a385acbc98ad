import type { DiscoverySettings } from "./discovery/start-discovery.ts";
import type { TlsSettings } from "./endpoint/upstream-tls.ts";
import type { HealthCheckSettings } from "./health/health-checker.ts";
import type { BalancerSettings } from "./load-balancing/balancer-settings.ts";
import type { OutlierSettings } from "./outlier/outlier-detector.ts";
import type { AdaptiveLifoSettings } from "./queue/adaptive-lifo.ts";
import type { RetryBudgetSettings } from "./retry/retry-budget.ts";

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
export type ClusterSettings = BalancerSettings & {
  readonly model: string;
  readonly healthChecks: HealthCheckSettings;
  readonly outlierDetection: OutlierSettings;
  readonly circuitBreakers: CircuitBreakerSettings;
  /** Absent: plain text. */
  readonly tls?: TlsSettings | undefined;
};

export type ClusterConfig = ClusterSettings & DiscoverySettings;
