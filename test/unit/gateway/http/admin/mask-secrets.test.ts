import { expect, test } from "vitest";
import { maskSecrets } from "../../../../../gateway/http/admin/mask-secrets.ts";

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
    auth: { maxFailuresPerMinute: 20 },
    sealingKeyFile: "sealing.key",
    otlpEndpoint: "https://collector.example:4318/v1/traces",
    limits: { tokenBurst: 10, tokensPerDay: 60 },
    clusters: [{ model: "svc-qwen", endpoints: [{ address: "10.0.0.1:50051" }], lbPolicy: "round_robin" }],
    cachedInputWeight: 0,
    contextTokens: 4_096,
    maxPendingRequestsPerKey: 32,
    nothing: null,
    missing: undefined,
  };
  expect(maskSecrets(config)).toEqual(config);
});
