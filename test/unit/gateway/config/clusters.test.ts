import { describe, expect, test } from "vitest";
import { checkConfig } from "../../../../deploy/runtime/config/load-config.ts";
import { gatewayConfigSchema } from "../../../../gateway/config.ts";
import { timeoutsOf } from "../../../../gateway/upstream/call/timeouts.ts";

const check = (clusters: readonly object[], more: object = {}) =>
  checkConfig(gatewayConfigSchema, { keys: { file: "keys.json" }, clusters, ...more }, "gateway.yaml");

const STATIC = { model: "svc-qwen", endpoints: [{ address: "a:1" }] };

describe("defaults", () => {
  test("of a cluster is what the policies have by default", () => {
    const [cluster] = check([STATIC]).clusters;
    expect(cluster).toEqual({
      type: "static",
      model: "svc-qwen",
      endpoints: [{ address: "a:1", loadBalancingWeight: 1, healthStatus: "healthy" }],
      lbPolicy: "prefix_affinity",
      prefixEvents: true,
      healthChecks: {
        intervalMs: 5_000,
        intervalJitterMs: 1_000,
        unhealthyIntervalMs: 1_000,
        timeoutMs: 2_000,
        unhealthyThreshold: 2,
        healthyThreshold: 2,
      },
      outlierDetection: {
        consecutiveGatewayFailure: 5,
        baseEjectionTimeMs: 15_000,
        maxEjectionTimeMs: 300_000,
        maxEjectionPercent: 50,
      },
      circuitBreakers: {
        maxPendingRequestsPerKey: 32,
        noEndpointHoldMs: 120_000,
        retryBudget: { budgetPercent: 20 },
      },
    });
  });

  test("of the time limits is what the policies have by default", () => {
    expect(timeoutsOf(check([]).timeouts)).toEqual({
      requestHeadersTimeoutMs: 10_000,
      requestTimeoutMs: 120_000,
      pendingMs: 30_000,
      connectMs: 2_000,
      acceptMs: 5_000,
      acceptPerMiBMs: 1_000,
      perTry: { baseMs: 30_000, perThousandTokensMs: 500, maxMs: 600_000 },
      perTryIdleMs: 20_000,
      interTokenMs: 60_000,
      maxStreamDurationMs: 3_600_000,
      maxRequestDurationMs: 900_000,
      clientWriteStallMs: 30_000,
      keepAliveIntervalMs: 10_000,
      headerCommitMs: 8_000,
    });
  });

  test("of the retries is what the policies have by default", () => {
    expect(check([]).retry).toEqual({ numRetries: 2 });
  });

  test("of discovery by name is a lookup each second", () => {
    const [cluster] = check([{ model: "svc-qwen", type: "strict_dns", address: "engines:50051" }]).clusters;
    expect(cluster).toMatchObject({ type: "strict_dns", address: "engines:50051", dnsRefreshRateMs: 1_000 });
  });
});

describe("accepted", () => {
  test.each([
    ["an IPv6 address", { ...STATIC, endpoints: [{ address: "[::1]:50051" }] }],
    ["a cluster without endpoints", { ...STATIC, endpoints: [] }],
    ["a file", { model: "svc-qwen", type: "file", path: "/etc/svc/endpoints.yaml" }],
    ["detection by failures in a row switched off", { ...STATIC, outlierDetection: { consecutiveGatewayFailure: 0 } }],
    ["certificates", { ...STATIC, tls: { caFile: "ca.pem", certFile: "c.pem", keyFile: "c.key", serverName: "a" } }],
    ["limits instead of slots", { ...STATIC, circuitBreakers: { maxRequestsPerEndpoint: 10, maxPendingRequests: 0 } }],
  ])("%s", (_, cluster) => {
    expect(check([cluster]).clusters[0]).toMatchObject(cluster);
  });

  test("clusters that share an endpoint and secure it in the same way", () => {
    const tls = { caFile: "ca.pem", serverName: "a" };
    const clusters = ["svc-qwen", "svc-glm53"].map((model) => ({ ...STATIC, model, tls }));
    expect(check(clusters).clusters).toHaveLength(2);
  });
});

describe("refused, and the message names the path", () => {
  test.each([
    ["an unknown model", [{ ...STATIC, model: "gpt" }], "clusters.0.model"],
    ["a model twice", [STATIC, STATIC], "clusters.1.model"],
    ["an unknown type", [{ ...STATIC, type: "eds" }], "clusters.0.type"],
    ["an unknown policy", [{ ...STATIC, lbPolicy: "least_work" }], "clusters.0.lbPolicy"],
    ["a misspelt key", [{ ...STATIC, healthCheck: {} }], 'clusters.0: Unrecognized key: "healthCheck"'],
    ["a misspelt key deeper down", [{ ...STATIC, healthChecks: { interval: 1 } }], "clusters.0.healthChecks"],
    ["keys of another type", [{ ...STATIC, type: "file", path: "f" }], "clusters.0: Unrecognized key"],
    ["an address without a port", [{ ...STATIC, endpoints: [{ address: "a" }] }], "clusters.0.endpoints.0.address"],
    ["an address twice", [{ ...STATIC, endpoints: [{ address: "a:1" }, { address: "a:1" }] }], "clusters.0.endpoints"],
    ["a file without a path", [{ model: "svc-qwen", type: "file" }], "clusters.0.path"],
    ["a name without a port", [{ model: "svc-qwen", type: "strict_dns", address: "a" }], "clusters.0.address"],
    [
      "more than everything",
      [{ ...STATIC, outlierDetection: { maxEjectionPercent: 101 } }],
      "clusters.0.outlierDetection",
    ],
    [
      "half a certificate",
      [{ ...STATIC, tls: { caFile: "ca.pem", certFile: "c.pem" } }],
      "clusters.0.tls: certFile and",
    ],
    ["no authority", [{ ...STATIC, tls: { certFile: "c.pem", keyFile: "c.key" } }], "clusters.0.tls.caFile"],
    ["a threshold of 0", [{ ...STATIC, healthChecks: { healthyThreshold: 0 } }], "clusters.0.healthChecks"],
  ])("%s", (_, clusters, path) => {
    expect(() => check(clusters)).toThrow(`gateway.yaml: ${path}`);
  });

  test.each([undefined, { caFile: "other.pem" }, { caFile: "ca.pem", serverName: "b" }])(
    "an endpoint that two clusters secure in two ways: %j",
    (tls) => {
      const clusters = [
        { ...STATIC, tls: { caFile: "ca.pem" } },
        { ...STATIC, model: "svc-glm53", tls },
      ];
      const message = "gateway.yaml: clusters.1.tls: clusters.0 has a:1 with other TLS settings";
      expect(() => check(clusters)).toThrow(message);
    },
  );

  test.each([
    ["a misspelt time limit", { timeouts: { perTryTimeoutMs: 1 } }, "timeouts"],
    ["a time limit of 0", { timeouts: { pendingTimeoutMs: 0 } }, "timeouts.pendingTimeoutMs"],
    ["too many retries", { retry: { numRetries: 6 } }, "retry.numRetries"],
  ])("%s", (_, more, path) => {
    expect(() => check([], more)).toThrow(`gateway.yaml: ${path}`);
  });
});
