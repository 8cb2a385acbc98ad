const CLUSTER = {
  type: "type",
  lbPolicy: "lb_policy",
  "healthChecks.intervalMs": "health_checks.interval",
  "healthChecks.intervalJitterMs": "health_checks.interval_jitter",
  "healthChecks.unhealthyIntervalMs": "health_checks.unhealthy_interval",
  "healthChecks.timeoutMs": "health_checks.timeout",
  "healthChecks.unhealthyThreshold": "health_checks.unhealthy_threshold",
  "healthChecks.healthyThreshold": "health_checks.healthy_threshold",
  "outlierDetection.consecutiveGatewayFailure": "outlier_detection.consecutive_gateway_failure",
  "outlierDetection.baseEjectionTimeMs": "outlier_detection.base_ejection_time",
  "outlierDetection.maxEjectionTimeMs": "outlier_detection.max_ejection_time",
  "outlierDetection.maxEjectionPercent": "outlier_detection.max_ejection_percent",
  "circuitBreakers.maxPendingRequests": "circuit_breakers.thresholds.max_pending_requests",
  "circuitBreakers.retryBudget.budgetPercent": "circuit_breakers.thresholds.retry_budget.budget_percent",
  "tls.caFile": "validation_context.trusted_ca",
  "tls.certFile": "tls_certificates.certificate_chain",
  "tls.keyFile": "tls_certificates.private_key",
  "tls.serverName": "sni",
  "endpoints[].address": "lb_endpoints.endpoint.address",
  "endpoints[].loadBalancingWeight": "lb_endpoints.load_balancing_weight",
  "endpoints[].healthStatus": "lb_endpoints.health_status",
  dnsLookupFamily: "dns_lookup_family",
  dnsRefreshRateMs: "dns_refresh_rate",
} as const;

/**
 * Names of Envoy's v3 API for keys of the gateway's configuration, for operators with Envoy experience. Only keys with
 * the same meaning are listed; their defaults may differ. The generator fails on a key that does not exist.
 */
export const ENVOY_NAMES: Readonly<Record<string, string>> = {
  xffNumTrustedHops: "xff_num_trusted_hops",
  "overloadManager.resourceMonitors.fixedHeap.maxHeapSizeBytes": "resource_monitors.fixed_heap.max_heap_size_bytes",
  "overloadManager.resourceMonitors.globalDownstreamMaxConnections.maxActiveDownstreamConnections":
    "resource_monitors.downstream_connections.max_active_downstream_connections",
  "timeouts.requestTimeoutMs": "request_timeout",
  "timeouts.perTryIdleTimeoutMs": "retry_policy.per_try_idle_timeout",
  "timeouts.maxStreamDurationMs": "max_stream_duration",
  "retry.numRetries": "retry_policy.num_retries",
  ...Object.fromEntries(Object.entries(CLUSTER).map(([key, name]) => [`clusters[].${key}`, name])),
};
