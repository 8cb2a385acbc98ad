import { expect, test } from "vitest";
import { checkConfig } from "../../../deploy/runtime/config/load-config.ts";
import { CATALOG, findModel } from "../../../gateway/catalog.ts";
import { gatewayConfigSchema, reusesPorts } from "../../../gateway/config.ts";

const check = (more: object) =>
  checkConfig(gatewayConfigSchema, { keys: { file: "keys.json" }, clusters: [], ...more }, "gateway.yaml");

const STATIC = { model: "svc-qwen", endpoints: [{ address: "a:1" }] };
const cluster = (more: object) => ({ clusters: [{ ...STATIC, ...more }] });
const OWN = { id: "own", contextWindow: 8_192, displayName: "Own" };
const jwt = (more: object) => ({ auth: { jwt: { issuer: "https://login.example", audience: ["svc"], ...more } } });
const redis = (more: object) => ({ state: { redis: more } });

test.each([
  ["20.19.0", false],
  ["22.11.0", false],
  ["22.12.0", true],
  ["23.0.0", false],
  ["23.1.0", true],
  ["24.0.0", true],
])("Node %s shares a port: %s", (version, shares) => {
  expect(reusesPorts(version)).toBe(shares);
});

test("the five models are the catalog by default, and no other name is one of theirs", () => {
  expect(check({}).catalog).toEqual({ models: CATALOG, aliases: {} });
  expect(CATALOG.map(({ id }) => id)).toEqual(["svc-glm53", "svc-kimik3", "svc-qwen", "svc-minimax", "svc-dsv4flash"]);
  const { catalog } = check({ catalog: { aliases: { "claude-sonnet-5": "svc-glm53" } } });
  expect(findModel("claude-sonnet-5", catalog)?.id).toBe("svc-glm53");
  expect(findModel("svc-qwen", catalog)?.id).toBe("svc-qwen");
  expect(findModel("constructor", catalog)).toBeUndefined();
});

test.each([
  cluster({ endpoints: [{ address: "[::1]:50051" }] }),
  cluster({ endpoints: [] }),
  { clusters: [{ model: "svc-qwen", type: "file", path: "/etc/svc/endpoints.yaml" }] },
  cluster({ outlierDetection: { consecutiveGatewayFailure: 0 } }),
  cluster({ tls: { caFile: "ca.pem", certFile: "c.pem", keyFile: "c.key", serverName: "a" } }),
  cluster({ circuitBreakers: { maxRequestsPerEndpoint: 10, maxPendingRequests: 0 } }),
  { clusters: ["svc-qwen", "svc-glm53"].map((model) => ({ ...STATIC, model, tls: { caFile: "ca.pem" } })) },
  { catalog: { models: [{ ...OWN, id: "svc-qwen" }] }, clusters: [STATIC] },
  jwt({ jwksUrl: "https://login.example/jwks" }),
  jwt({ jwksUrl: "http://127.0.0.1:8080/jwks" }),
  jwt({ jwksUrl: "http://[::1]:8080/jwks" }),
  jwt({ jwksUrl: "http://localhost/jwks" }),
  jwt({ jwksFile: "jwks.json", requiredType: "at+jwt" }),
  jwt({ jwksFile: "jwks.json", requiredType: "application/at+jwt" }),
  redis({ url: "redis://localhost" }),
  redis({ url: "redis://gateway@[::1]:6380/3", passwordFile: "password" }),
  redis({ url: "rediss://gateway:pass%40word@store.example:6379/0", caFile: "ca.pem" }),
])("%j is accepted", (more) => {
  expect(check(more)).toMatchObject(more);
});

test.each<[string, object]>([
  ["catalog.models.1.id", { catalog: { models: [OWN, OWN] } }],
  ["catalog.models", { catalog: { models: [] } }],
  ["catalog.models.0.id", { catalog: { models: [{ ...OWN, id: "a/b" }] } }],
  ["catalog.aliases.other", { catalog: { aliases: { other: "svc-none" } } }],
  ["catalog.aliases.svc-qwen", { catalog: { aliases: { "svc-qwen": "svc-glm53" } } }],
  ["clusters.0.model", { catalog: { models: [OWN] }, clusters: [STATIC] }],
  ["clusters.0.model", cluster({ model: "gpt" })],
  ["clusters.1.model", { clusters: [STATIC, STATIC] }],
  ["clusters.0.type", cluster({ type: "eds" })],
  ["clusters.0.lbPolicy", cluster({ lbPolicy: "least_work" })],
  ["clusters.0.healthCheck: unknown key (did you mean healthChecks?)", cluster({ healthCheck: {} })],
  ["clusters.0.healthChecks", cluster({ healthChecks: { interval: 1 } })],
  ["clusters.0.healthChecks", cluster({ healthChecks: { timeoutMs: 0 } })],
  ["clusters.0.endpoints: unknown key; known here: model,", cluster({ type: "file", path: "f" })],
  ["clusters.0.endpoints.0.address", cluster({ endpoints: [{ address: "a" }] })],
  ["clusters.0.endpoints", cluster({ endpoints: [{ address: "a:1" }, { address: "a:1" }] })],
  ["clusters.0.path", { clusters: [{ model: "svc-qwen", type: "file" }] }],
  ["clusters.0.address", { clusters: [{ model: "svc-qwen", type: "strict_dns", address: "a" }] }],
  ["clusters.0.tls: certFile and", cluster({ tls: { caFile: "ca.pem", certFile: "c.pem" } })],
  ["clusters.0.tls.caFile", cluster({ tls: { certFile: "c.pem", keyFile: "c.key" } })],
  ...[undefined, { caFile: "other.pem" }, { caFile: "ca.pem", serverName: "b" }].map((tls): [string, object] => [
    "clusters.1.tls: clusters.0 has a:1 with other TLS settings",
    {
      clusters: [
        { ...STATIC, tls: { caFile: "ca.pem" } },
        { ...STATIC, model: "svc-glm53", tls },
      ],
    },
  ]),
  ["timeouts", { timeouts: { perTryTimeoutMs: 1 } }],
  ["timeouts.pendingTimeoutMs", { timeouts: { pendingTimeoutMs: 0 } }],
  ["keys.redis: state.redis is required", { keys: { redis: { pepperFile: "pepper" } } }],
  ["auth.jwt.jwksUrl: expected https: beyond this machine", jwt({ jwksUrl: "http://login.example/jwks" })],
  ["auth.jwt.jwksUrl: expected https:", jwt({ jwksUrl: "http://10.0.0.1/jwks" })],
  ["auth.jwt.jwksUrl: expected https:", jwt({ jwksUrl: "http://localhost.login.example/jwks" })],
  ["auth.jwt.jwksUrl: expected https:", jwt({ jwksUrl: "http://127.0.0.1@login.example/jwks" })],
  ["auth.jwt.jwksUrl", jwt({ jwksUrl: "http:/" })],
  ["auth.jwt.jwksUrl", jwt({ jwksUrl: "ftp://login.example" })],
  ["auth.jwt.requiredType: expected a media type", jwt({ jwksFile: "jwks.json", requiredType: "at jwt" })],
  ["state.redis.url: expected redis://USER@HOST:PORT/DATABASE", redis({ url: "store:6379" })],
  ["state.redis.url: expected redis://USER", redis({ url: "http://store:6379" })],
  ["state.redis.url: expected redis://USER", redis({ url: "redis://store:6379/db" })],
  ["state.redis.url: expected redis://USER", redis({ url: "redis://store:6379?db=1" })],
  ["state.redis.caFile: expected a rediss:// URL", redis({ url: "redis://store", caFile: "ca.pem" })],
  [
    "state.redis.passwordFile: the password is given",
    redis({ url: "redis://user:word@store", passwordFile: "password" }),
  ],
  [
    "state.redis.addresses: unknown key; known here: url, passwordFile",
    redis({ url: "redis://store", addresses: ["store:6379"] }),
  ],
  ["state.redis.keyPrefix: expected at most 32 letters", redis({ url: "redis://store", keyPrefix: "a b" })],
])("the path of a mistake is named: %s", (fault, more) => {
  expect(() => check(more)).toThrow(`gateway.yaml: ${fault}`);
});

test("names the fault of one section whatever is missing in another", () => {
  const document = { listen: { prot: 1 }, clusters: [{ ...STATIC, model: "svc-gwen" }] };
  const faults = () => checkConfig(gatewayConfigSchema, document, "gateway.yaml");
  for (const text of ["keys", "prot", "svc-gwen is no model of the catalog"])
    expect(faults).toThrow(expect.objectContaining({ message: expect.stringContaining(text) }));
});
