import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ScriptedService, serviceOfFile, startScriptedService } from "../../support/gateway/scripted-service.ts";
import { expectErrorA, expectErrorB } from "../../support/http/error-reply.ts";
import { MINIMAL, POST_PATHS, type PostPath } from "../../support/requests/minimal-bodies.ts";

const CHAT = "/v1/chat/completions";
const MESSAGES = "/v1/messages";
const COUNT = "/v1/messages/count_tokens";
const RESPONSES = "/v1/responses";
const JSON_TYPE = { "content-type": "application/json" };

const service = serviceOfFile();

/** A request with exactly these headers. */
function send(path: string, init: RequestInit): Promise<Response> {
  return fetch(`${service.gateway.baseUrl}${path}`, init);
}

function sendMinimal(path: PostPath, headers: Record<string, string>): Promise<Response> {
  return send(path, { method: "POST", headers: { ...JSON_TYPE, ...headers }, body: JSON.stringify(MINIMAL[path]) });
}

async function expectError(response: Response, path: string, status: number, code: string, type: string) {
  return path.startsWith(MESSAGES) ? expectErrorB(response, status, type) : expectErrorA(response, status, code);
}

describe("keys", () => {
  test("case 1: chat without a key is 401 in Format A", async () => {
    await expectErrorA(await sendMinimal(CHAT, {}), 401, "invalid_api_key", null);
  });

  test("case 2: messages without a key is 401 in Format B", async () => {
    const message = await expectErrorB(await sendMinimal(MESSAGES, {}), 401, "authentication_error");
    expect(message).toContain("x-api-key: <API_KEY>");
  });

  test("case 3: count_tokens with a bad key is 401 in Format B", async () => {
    await expectErrorB(await sendMinimal(COUNT, { "x-api-key": "bad" }), 401, "authentication_error");
  });

  test("case 4: models with a bad key is 401 in Format A", async () => {
    await expectErrorA(await send("/v1/models", { headers: { authorization: "Bearer bad" } }), 401, "invalid_api_key");
  });

  test.each([
    ["case 5: chat takes x-api-key", CHAT, (key: string) => ({ "x-api-key": key })],
    ["case 6: messages takes a bearer token", MESSAGES, (key: string) => ({ authorization: `Bearer ${key}` })],
    ["case 7: the scheme may be in lower case", CHAT, (key: string) => ({ authorization: `bearer ${key}` })],
  ] as const)("%s", async (_, path, headers) => {
    const response = await sendMinimal(path, headers(service.gateway.key));
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining("Hello.")]);
  });

  test("case 8: responses without a key is 401 in Format A", async () => {
    await expectErrorA(await sendMinimal(RESPONSES, {}), 401, "invalid_api_key", null);
  });
});

test("case 9: every reply has a request id of its own in both headers", async () => {
  const seen = new Set<string>();
  const replies = [
    ...POST_PATHS.map((path) => service.post(path)),
    service.post(CHAT, { stream: true }),
    service.post(CHAT, { model: "nothing" }),
    service.gateway.get("/v1/models"),
    service.gateway.get("/v1/nope"),
    sendMinimal(CHAT, {}),
  ];
  for (const response of await Promise.all(replies)) {
    await response.text();
    const id = response.headers.get("x-request-id") ?? "";
    expect(id).toMatch(/^req_[A-Za-z0-9]{24,}$/);
    expect(response.headers.get("request-id")).toBe(id);
    seen.add(id);
  }
  expect(seen.size).toBe(replies.length);
});

describe("routing", () => {
  test("case 10: a query string has no effect", async () => {
    const plain = await service.gateway.post(MESSAGES, MINIMAL[MESSAGES]);
    const beta = await service.gateway.post(`${MESSAGES}?beta=true`, MINIMAL[MESSAGES]);
    const withoutId = async (response: Response) => ({ ...((await response.json()) as object), id: "" });
    expect(beta.status).toBe(200);
    expect(await withoutId(beta)).toEqual(await withoutId(plain));
  });

  test.each([CHAT, MESSAGES, COUNT, RESPONSES])("case 11: GET %s is 405 in its envelope", async (path) => {
    const response = await service.gateway.get(path);
    expect(response.headers.get("allow")).toBe("POST");
    await expectError(response, path, 405, "method_not_allowed", "invalid_request_error");
  });

  test("case 12: an unknown path is 404 in the envelope of its prefix", async () => {
    await expectErrorA(await service.gateway.post("/v1/nope", {}), 404, "unknown_url", null);
    const advice = "You mean /v1/messages: your client's base URL has /v1 twice, or not at all.";
    for (const path of ["/v1/v1/messages", "/messages"])
      expect(await expectErrorB(await service.gateway.post(path, {}), 404, "not_found_error")).toContain(advice);
    await expectErrorB(await service.gateway.post("/v1/messages/nope", {}), 404, "not_found_error");
  });

  test.each(["/", "/api/hello"])("HEAD %s, by which agents probe the service, needs no key", async (path) => {
    expect((await send(path, { method: "HEAD" })).status).toBe(200);
  });
});

describe("bodies", () => {
  test.each(POST_PATHS)("case 13: a body that is not JSON is 400 on %s", async (path) => {
    await expectError(await service.gateway.post(path, "{"), path, 400, "invalid_json", "invalid_request_error");
  });

  test.each(POST_PATHS)("case 14: a body that is not an object is 400 on %s", async (path) => {
    await expectError(await service.gateway.post(path, "null"), path, 400, "bad_request", "invalid_request_error");
  });

  test.each(POST_PATHS)("case 15: another content type is 415 on %s", async (path) => {
    const response = await service.post(path, {}, { "content-type": "text/plain" });
    await expectError(response, path, 415, "unsupported_media_type", "invalid_request_error");
  });

  test.each(POST_PATHS)("case 16: a content type with parameters is accepted on %s", async (path) => {
    const response = await service.post(path, {}, { "content-type": "application/json; charset=utf-8" });
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  });
});

describe("case 17: the size of a body", () => {
  const limit = 2_048;
  let small: ScriptedService;

  beforeAll(async () => {
    small = await startScriptedService({ gateway: { maxBodyBytes: limit } });
  });

  afterAll(() => small.stop());

  /** Trailing white space counts too. */
  const padded = (path: PostPath, bytes: number) => JSON.stringify(MINIMAL[path]).padEnd(bytes, " ");

  test.each(POST_PATHS)("case 17: the limit itself is accepted, a byte more is 413 on %s", async (path) => {
    const fits = await small.gateway.post(path, padded(path, limit));
    expect([fits.status, await fits.text()]).toEqual([200, expect.any(String)]);
    const large = await small.gateway.post(path, padded(path, limit + 1));
    await expectError(large, path, 413, "request_too_large", "request_too_large");
  });
});

test("case 18: no error reply holds the key or a stack trace", async () => {
  const { key } = service.gateway;
  service.play(() => {
    throw new Error("a fault of the engine");
  });
  const replies = await Promise.all([
    ...POST_PATHS.flatMap((path) => [
      sendMinimal(path, { authorization: `Bearer ${key}x` }),
      sendMinimal(path, { authorization: `Basic ${key}` }),
      service.gateway.post(path, `{"model": "${key}"`),
      service.post(path, { model: key }),
      service.post(path, { model: "svc-qwen", messages: [{ role: key }], input: [{ type: key }] }),
      service.gateway.get(`${path}/${key}`),
    ]),
    service.post(CHAT),
    service.post(MESSAGES),
    service.post(RESPONSES),
    service.gateway.get(`/v1/models/${key}`),
  ]);
  for (const response of replies) {
    const text = await response.text();
    expect(response.status).toBeGreaterThanOrEqual(400);
    expect(text).not.toContain(key);
    expect(text).not.toMatch(/\n\s+at |\.[cm]?[jt]s:\d|node_modules|a fault of the engine/);
  }
});
