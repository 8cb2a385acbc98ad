import { describe, expect, test } from "vitest";
import { isOwnOrigin, refusal } from "../../../../gateway/http/admin/admin-access.ts";
import { clustersText } from "../../../../gateway/http/admin/cluster-routes.ts";
import { maskSecrets } from "../../../../gateway/http/admin/server-routes.ts";

describe("the origin of a change", () => {
  test.each([
    ["none, as of a tool", undefined, "127.0.0.1:9901"],
    ["the page by address", "http://127.0.0.1:9901", "127.0.0.1:9901"],
    ["the page as localhost", "http://localhost:9901", "LOCALHOST:9901"],
    ["the page by an IPv6 address", "http://[::1]:9901", "[::1]:9901"],
    ["the default port, written in one place only", "http://10.0.0.1", "10.0.0.1:80"],
    ["through a proxy with TLS", "https://10.0.0.1", "10.0.0.1"],
  ])("a change from the origin %s is accepted", (_, origin, host) => expect(isOwnOrigin(origin, host)).toBe(true));

  test.each([
    ["another site", "https://example.com", "127.0.0.1:9901"],
    ["another port", "http://127.0.0.1:9902", "127.0.0.1:9901"],
    ["a name that points here", "http://rebound.example.com:9901", "rebound.example.com:9901"],
    ["a page without an origin", "null", "127.0.0.1:9901"],
    ["another scheme", "chrome-extension://127.0.0.1", "127.0.0.1"],
    ["nonsense", "127.0.0.1:9901", "127.0.0.1:9901"],
    ["empty", "", "127.0.0.1:9901"],
    ["no host to compare it with", "http://127.0.0.1:9901", undefined],
    ["an address with something before it", "http://127.0.0.1:9901@evil.example", "127.0.0.1:9901"],
  ])("a change from the origin %s is refused", (_, origin, host) => expect(isOwnOrigin(origin, host)).toBe(false));
});

const TOKEN = "a-token-of-the-admin-port";
const proof = { token: { is: (text: string) => text === TOKEN } };
const basic = `Basic ${Buffer.from(`anybody:${TOKEN}`).toString("base64")}`;

/** A request from an address, with these headers. */
function from(remoteAddress: string, headers: Readonly<Record<string, string>> = {}, method = "GET") {
  return { method, headers: { host: "10.0.0.1:9901", ...headers }, socket: { remoteAddress } };
}

describe("a request from another machine", () => {
  test.each([
    ["nothing can be shown", {}, {}, 403],
    ["nothing is shown", proof, {}, 401],
    ["the token is shown", proof, { authorization: `Bearer ${TOKEN}` }, undefined],
    ["a browser shows the token", proof, { authorization: basic }, undefined],
    [
      "a browser that was led here by a name shows the token",
      proof,
      { authorization: basic, host: "a.example" },
      undefined,
    ],
    ["another token is shown", proof, { authorization: "Bearer other" }, 401],
    ["another scheme is used", proof, { authorization: `Digest ${TOKEN}` }, 401],
    ["the token is shown where none is set", {}, { authorization: `Bearer ${TOKEN}` }, 403],
    ["only certificates count and none is shown", { certificates: true }, {}, 403],
  ])("the admin port judges a request from another machine where %s", (_, given, headers, status) => {
    expect(refusal(from("10.0.0.7", headers), given)?.status).toBe(status);
  });
});

describe("a request from this machine", () => {
  test.each([
    ["by address", { host: "127.0.0.1:9901" }, "GET", undefined],
    ["by an IPv6 address", { host: "[::1]:9901" }, "GET", undefined],
    ["as localhost", { host: "localhost:9901" }, "POST", undefined],
    ["by a name that was pointed here", { host: "rebound.example.com" }, "GET", 403],
    ["with a host that is none", { host: "a b" }, "GET", 403],
    ["with a user before the host", { host: "evil.example@127.0.0.1:9901" }, "GET", 403],
    ["with a path behind the host", { host: "127.0.0.1:9901/evil.example" }, "GET", 403],
    ["by another site's script", { host: "127.0.0.1:9901", "sec-fetch-site": "cross-site" }, "POST", 403],
    ["by the page itself", { host: "127.0.0.1:9901", "sec-fetch-site": "same-origin" }, "POST", undefined],
    ["from another origin", { host: "127.0.0.1:9901", origin: "https://example.com" }, "POST", 403],
  ])("the admin port judges a request from this machine %s", (_, headers, method, status) => {
    for (const address of ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
      expect(refusal(from(address, headers, method), {})?.status).toBe(status);
  });
});

const endpoint = {
  address: "10.0.0.1:50051",
  healthFlags: [] as readonly string[],
  healthFailure: undefined as string | undefined,
  rqActive: 2,
  rqTotal: 40,
  rqError: 1,
  rqContinued: 3,
  weight: 3,
  slots: 8,
  running: 5,
  waiting: 1,
  kvUse: 0.25,
  tokensPerSecond: 100,
  outstandingPrefillTokens: 1_200,
  ejectedForMs: undefined,
};

test("clusters are printed as Envoy prints them, one value a line", () => {
  const healthFlags = ["/failed_active_hc", "/failed_outlier_check"];
  const sick = { ...endpoint, address: "[::1]:50052", healthFlags, healthFailure: "connection refused" };
  const text = clustersText([{ model: "svc-qwen", lbPolicy: "prefix_affinity", endpoints: [endpoint, sick] }]);
  const lines = text.split("\n");
  expect(lines.pop()).toBe("");
  expect(lines[0]).toBe("svc-qwen::observability_name::svc-qwen");
  expect(lines).toContain("svc-qwen::10.0.0.1:50051::health_flags::healthy");
  expect(lines).toContain("svc-qwen::10.0.0.1:50051::rq_active::2");
  expect(lines).toContain("svc-qwen::10.0.0.1:50051::rq_continued::3");
  expect(lines).toContain("svc-qwen::10.0.0.1:50051::kv_use::0.250");
  expect(lines).toContain("svc-qwen::[::1]:50052::health_flags::/failed_active_hc/failed_outlier_check");
  expect(lines.filter((line) => line.includes("health_failure"))).toEqual([
    "svc-qwen::[::1]:50052::health_failure::connection refused",
  ]);
});

test("no canary in the place of a secret is printed, at any depth and in any spelling", () => {
  const canary = "canary-7f3a";
  const masked = maskSecrets({
    secret: canary,
    clientSecret: canary,
    redis: { url: `rediss://user:${canary}@redis:6379/0`, password: canary },
    list: [{ apiKey: canary }, { api_key: canary.toUpperCase(), token: canary }, [`http://${canary}@host/`]],
    key: canary,
    keys: [{ keyHash: canary, cacheSalt: canary, sha256Digest: canary }],
    auth: { bearer: canary },
    credentials: { any: canary },
    privateKey: canary,
    accessKey: canary,
    oldKeys: [canary, { token: canary }],
    sealingKey: canary,
    basicAuth: canary,
    otlpEndpoint: `https://collector.example/v1/traces?region=eu&api-key=${canary}`,
    fragment: `https://collector.example/#${canary}`,
  });
  expect(JSON.stringify(masked).toLowerCase()).not.toContain(canary);
});

test("values that are not secrets are unchanged", () => {
  const config = {
    listen: { host: "127.0.0.1", port: 8080 },
    keys: { file: "keys.json" },
    sealingKeyFile: "sealing.key",
    otlpEndpoint: "https://collector.example:4318/v1/traces",
    clusters: [{ model: "svc-qwen", endpoints: [{ address: "10.0.0.1:50051" }], lbPolicy: "round_robin" }],
    tokenCacheMegabytes: 256,
    contextTokens: 4_096,
    maxPendingRequests: 32,
    nothing: null,
    missing: undefined,
  };
  expect(maskSecrets(config)).toEqual(config);
});
