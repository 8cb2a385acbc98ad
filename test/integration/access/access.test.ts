import { afterAll, beforeAll, expect, test } from "vitest";
import { type ScriptedService, startScriptedService } from "../../support/gateway/scripted-service.ts";
import { type RunningGateway, startGateway } from "../../support/gateway/start-gateway.ts";
import { expectErrorA, expectErrorB } from "../../support/http/error-reply.ts";
import { POST_PATHS, type PostPath } from "../../support/requests/minimal-bodies.ts";

let service: ScriptedService;

beforeAll(async () => {
  service = await startScriptedService();
});

afterAll(() => service.stop());

function expectError(response: Response, path: PostPath, status: number, a: string, b: string): Promise<string> {
  return path.startsWith("/v1/messages") ? expectErrorB(response, status, b) : expectErrorA(response, status, a);
}

async function keyOf(gateway: RunningGateway, ...options: readonly string[]) {
  const key = await gateway.createKey("--name", "bound", ...options);
  return { key, headers: { authorization: `Bearer ${key}` } };
}

test.each(POST_PATHS)("a key with another secret is 401 on %s", async (path) => {
  const { key } = service.gateway;
  // Keys are random: one may end in any letter.
  const almost = key.slice(0, -1) + (key.endsWith("x") ? "y" : "x");
  const response = await service.post(path, {}, { authorization: `Bearer ${almost}` });
  expect(response.headers.get("www-authenticate")).toBe("Bearer");
  await expectError(response, path, 401, "invalid_api_key", "authentication_error");
});

test("a key that is bound to networks is 403 from anywhere else, and its id is logged", async () => {
  const { gateway } = service;
  const here = await keyOf(gateway, "--models", "all", "--allow-ips", "10.0.0.0/8,127.0.0.0/8");
  const elsewhere = await keyOf(gateway, "--models", "all", "--allow-ips", "10.0.0.0/8,2001:db8::/32");
  for (const path of POST_PATHS) {
    expect((await service.post(path, {}, here.headers)).status).toBe(200);
    const response = await service.post(path, {}, elsewhere.headers);
    await expectError(response, path, 403, "permission_denied", "permission_error");
  }
  const keyId = gateway.keys.find(elsewhere.key)?.keyId;
  const lines = gateway.log.map((line) => JSON.parse(line)).filter(({ detail }) => detail === "address_not_allowed");
  expect(new Set(lines.map(({ key_id }) => key_id))).toEqual(new Set([keyId]));
});

test("behind a trusted proxy a key is bound to its caller's network, which callers cannot forge", async () => {
  const behind = await startGateway([service.engine.address], { xffNumTrustedHops: 1 });
  try {
    for (const [to, address, status] of [
      [behind, "192.0.2.7", 200],
      [behind, "198.51.100.1, 192.0.2.7", 200],
      [behind, "198.51.100.1", 403],
      // Only the last one was added by the proxy.
      [behind, "192.0.2.7, 198.51.100.1", 403],
      [behind, "", 403],
      [service.gateway, "192.0.2.7", 403],
    ] as const) {
      const { headers } = await keyOf(to, "--models", "all", "--allow-ips", "192.0.2.0/24");
      const response = await to.get("/v1/models", { ...headers, "x-forwarded-for": address });
      expect([address, response.status]).toEqual([address, status]);
    }
  } finally {
    await behind.stop();
  }
});

test("for a key of one model the others do not exist", async () => {
  const { headers } = await keyOf(service.gateway, "--models", "svc-qwen");
  for (const path of POST_PATHS) {
    const denied = await service.post(path, { model: "svc-glm53" }, headers);
    await expectError(denied, path, 404, "model_not_found", "not_found_error");
  }
});
