import { describe, expect, test } from "vitest";
import { checkConfig } from "../../../../deploy/runtime/config/load-config.ts";
import { gatewayConfigSchema } from "../../../../gateway/config.ts";

const check = (clusters: readonly object[], more: object = {}) =>
  checkConfig(gatewayConfigSchema, { keys: { file: "keys.json" }, clusters, ...more }, "gateway.yaml");

const STATIC = { model: "svc-qwen", endpoints: [{ address: "a:1" }] };

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
      "half a certificate",
      [{ ...STATIC, tls: { caFile: "ca.pem", certFile: "c.pem" } }],
      "clusters.0.tls: certFile and",
    ],
    ["no authority", [{ ...STATIC, tls: { certFile: "c.pem", keyFile: "c.key" } }], "clusters.0.tls.caFile"],
    ["a threshold of 0", [{ ...STATIC, healthChecks: { unhealthyThreshold: 0 } }], "clusters.0.healthChecks"],
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
