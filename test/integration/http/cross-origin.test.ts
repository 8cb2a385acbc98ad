import { expect, test } from "vitest";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { expectErrorA } from "../../support/http/error-reply.ts";
import { MINIMAL } from "../../support/requests/minimal-bodies.ts";

/* Pages of other origins: refused by default, and read replies where the operator names their origin. */

const PAGE = "http://localhost:5173";
const CHAT = "/v1/chat/completions";
const open = serviceOfFile({ gateway: { listen: { port: 0, allowOrigins: [PAGE, "app://obsidian.md"] } } });
const closed = serviceOfFile();

function preflight({ gateway }: typeof open, origin: string): Promise<Response> {
  const headers = {
    origin,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization",
  };
  return fetch(`${gateway.baseUrl}${CHAT}`, { method: "OPTIONS", headers });
}

test("a preflight request of an allowed origin is answered without a key", async () => {
  const reply = await preflight(open, "app://obsidian.md");
  expect(reply.status).toBe(204);
  expect(reply.headers.get("access-control-allow-origin")).toBe("app://obsidian.md");
  expect(reply.headers.get("access-control-allow-methods")).toContain("POST");
  expect(reply.headers.get("access-control-allow-headers")).toContain("authorization");
  expect(reply.headers.has("access-control-allow-credentials")).toBe(false);
});

test.each([
  ["an answer", {}, 200],
  ["a stream", { stream: true }, 200],
  ["an error", { model: 1 }, 400],
] as const)("a page of an allowed origin may read %s", async (_, fields, status) => {
  const reply = await open.post(CHAT, fields, { origin: PAGE });
  expect(reply.status).toBe(status);
  expect(reply.headers.get("access-control-allow-origin")).toBe(PAGE);
  expect(reply.headers.get("vary")).toBe("origin");
  await reply.text();
});

test.each([
  ["where none is allowed", closed],
  ["where others are", open],
])("a preflight request of an unnamed origin is refused, and no reply can be read, %s", async (_, service) => {
  const refused = await preflight(service, "http://localhost:9999");
  expect(await expectErrorA(refused, 403, "permission_denied", null)).toContain("listen.allowOrigins");
  const reply = await service.gateway.post(CHAT, MINIMAL[CHAT], { origin: "http://localhost:9999" });
  for (const { headers } of [refused, reply]) expect(headers.has("access-control-allow-origin")).toBe(false);
  await reply.text();
});
