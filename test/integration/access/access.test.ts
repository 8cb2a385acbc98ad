import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { fixedSentence } from "../../support/engine/scripted-backend.ts";
import { type RunningEngine, startEngine } from "../../support/engine/start-engine.ts";
import { type RunningGateway, startGateway } from "../../support/gateway/start-gateway.ts";

let engine: RunningEngine;
let gateway: RunningGateway;

beforeAll(async () => {
  engine = await startEngine(fixedSentence);
  gateway = await startGateway([engine.address]);
});

afterAll(async () => {
  await gateway.stop();
  await engine.stop();
});

const turn = [{ role: "user", content: "hi" }];
const BODIES = {
  "/v1/chat/completions": { model: "svc-qwen", messages: turn },
  "/v1/messages": { model: "svc-qwen", messages: turn, max_tokens: 16 },
  "/v1/messages/count_tokens": { model: "svc-qwen", messages: turn },
  "/v1/responses": { model: "svc-qwen", input: "hi" },
} as const;

const POSTS = Object.entries(BODIES).map(([path, body]) => ({
  path,
  body,
  envelope: path.startsWith("/v1/messages") ? ("b" as const) : ("a" as const),
}));

/** Returns the error's code in A, its type in B; fails unless the envelope is complete. */
async function errorOf(response: Response, envelope: "a" | "b"): Promise<string> {
  expect(response.headers.get("content-type")).toContain("application/json");
  const body = (await response.json()) as Record<string, Record<string, unknown>>;
  expect(typeof body.error?.message).toBe("string");
  if (envelope === "b") {
    expect(body).toMatchObject({ type: "error", request_id: response.headers.get("request-id") });
    return String(body.error?.type);
  }
  expect(Object.keys(body.error ?? {}).sort()).toEqual(["code", "message", "param", "type"]);
  return String(body.error?.code);
}

describe("keys", () => {
  const refused = { a: "invalid_api_key", b: "authentication_error" };

  test.each(POSTS)("a wrong key is 401 in the envelope of $path", async ({ path, body, envelope }) => {
    // Keys are random: one may end in any letter.
    const almost = gateway.key.slice(0, -1) + (gateway.key.endsWith("x") ? "y" : "x");
    for (const authorization of ["", "Bearer nonsense", `Bearer ${almost}`]) {
      const response = await gateway.post(path, body, { authorization });
      expect(response.status).toBe(401);
      expect(response.headers.get("www-authenticate")).toBe("Bearer");
      const text = await response.clone().text();
      expect(text).not.toContain(gateway.key.slice(10, 40));
      expect(await errorOf(response, envelope)).toBe(refused[envelope]);
    }
  });

  test.each(["/v1/models", "/v1/models/svc-qwen"])("a wrong key is 401 on GET %s", async (path) => {
    const response = await gateway.get(path, { authorization: "Bearer nonsense" });
    expect(response.status).toBe(401);
    expect(await errorOf(response, "a")).toBe("invalid_api_key");
  });

  test.each(POSTS)("both headers open $path", async ({ path, body }) => {
    const headers = { "content-type": "application/json" };
    const payload = JSON.stringify(body);
    for (const auth of [
      { "x-api-key": gateway.key },
      { authorization: `Bearer ${gateway.key}` },
      { authorization: `bearer ${gateway.key}` },
      { authorization: `Bearer ${gateway.key}`, "x-api-key": gateway.key },
    ] as Record<string, string>[]) {
      const url = `${gateway.baseUrl}${path}`;
      const response = await fetch(url, { method: "POST", headers: { ...headers, ...auth }, body: payload });
      expect(response.status).toBe(200);
      await response.text();
    }
  });

  test("a key that is bound to networks is 403 from anywhere else, and its id is logged", async () => {
    const bound = async (networks: string) => {
      const key = await gateway.createKey("--name", "bound", "--models", "all", "--allow-ips", networks);
      await becomes(async () => gateway.keys.find(key) !== undefined, "the key is known");
      return { key, headers: { authorization: `Bearer ${key}` } };
    };
    const [here, elsewhere] = [await bound("10.0.0.0/8,127.0.0.0/8"), await bound("10.0.0.0/8,2001:db8::/32")];
    const refused = { a: "permission_denied", b: "permission_error" };
    for (const { path, body, envelope } of POSTS) {
      expect((await gateway.post(path, body, here.headers)).status).toBe(200);
      const response = await gateway.post(path, body, elsewhere.headers);
      expect([response.status, await errorOf(response, envelope)]).toEqual([403, refused[envelope]]);
    }
    const keyId = gateway.keys.find(elsewhere.key)?.keyId;
    const lines = gateway.log.map((line) => JSON.parse(line)).filter(({ detail }) => detail === "address_not_allowed");
    expect(new Set(lines.map(({ key_id }) => key_id))).toEqual(new Set([keyId]));
  });

  test("behind a trusted proxy a key is bound to its caller's network, which callers cannot forge", async () => {
    const behind = await startGateway([engine.address], { xffNumTrustedHops: 1 });
    try {
      for (const [to, address, status] of [
        [behind, "192.0.2.7", 200],
        [behind, "198.51.100.1, 192.0.2.7", 200],
        [behind, "198.51.100.1", 403],
        // Only the last one was added by the proxy.
        [behind, "192.0.2.7, 198.51.100.1", 403],
        [behind, "", 403],
        [gateway, "192.0.2.7", 403],
      ] as const) {
        const key = await to.createKey("--name", "bound", "--models", "all", "--allow-ips", "192.0.2.0/24");
        await becomes(async () => to.keys.find(key) !== undefined, "the key is known");
        const headers = { authorization: `Bearer ${key}`, "x-forwarded-for": address };
        expect([address, (await to.get("/v1/models", headers)).status]).toEqual([address, status]);
      }
    } finally {
      await behind.stop();
    }
  });

  test("a key for one model sees one, and the others are not there for it", async () => {
    const key = await gateway.createKey("--name", "narrow", "--models", "svc-qwen");
    const authorization = `Bearer ${key}`;
    // The file store loads the new key a moment later.
    let response = await gateway.get("/v1/models", { authorization });
    for (const until = Date.now() + 5_000; response.status === 401 && Date.now() < until; ) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      response = await gateway.get("/v1/models", { authorization });
    }
    const list = (await response.json()) as { object: string; data: { id: string }[] };
    expect(list.data.map((model) => model.id)).toEqual(["svc-qwen"]);
    expect((await gateway.get("/v1/models/svc-qwen", { authorization })).status).toBe(200);
    const hidden = await gateway.get("/v1/models/svc-glm53", { authorization });
    const absent = await gateway.get("/v1/models/svc-nothing", { authorization });
    expect([hidden.status, absent.status]).toEqual([404, 404]);
    expect((await hidden.text()).replaceAll("svc-glm53", "M")).toBe(
      (await absent.text()).replaceAll("svc-nothing", "M"),
    );
    for (const { path, body, envelope } of POSTS) {
      const denied = await gateway.post(path, { ...body, model: "svc-glm53" }, { authorization });
      expect(denied.status).toBe(404);
      expect(await errorOf(denied, envelope)).toBe(envelope === "a" ? "model_not_found" : "not_found_error");
    }
  });
});

describe("models", () => {
  test("the list has the five of the catalog, each with its four fields", async () => {
    const list = (await (await gateway.get("/v1/models?limit=1000")).json()) as { data: Record<string, unknown>[] };
    expect(list).toMatchObject({ object: "list" });
    expect(list.data.map((model) => model.id)).toEqual([
      "svc-glm53",
      "svc-kimik3",
      "svc-qwen",
      "svc-minimax",
      "svc-dsv4flash",
    ]);
    for (const model of list.data) {
      expect(model).toMatchObject({ object: "model", owned_by: "svc" });
      expect(Number.isInteger(model.created)).toBe(true);
    }
  });

  test("an unknown model is 404 for GET and 400 in a body", async () => {
    const response = await gateway.get("/v1/models/gpt-4o");
    expect([response.status, await errorOf(response, "a")]).toEqual([404, "model_not_found"]);
    for (const { path, body, envelope } of POSTS) {
      const refused = await gateway.post(path, { ...body, model: "gpt-4o" });
      expect(refused.status).toBe(400);
      expect(await errorOf(refused, envelope)).toBe(envelope === "a" ? "model_not_found" : "invalid_request_error");
    }
  });
});

describe("requests that no format sees", () => {
  test("an unknown path is 404, a wrong method 405 with the allowed ones", async () => {
    const unknownA = await gateway.post("/v1/nope", {});
    expect([unknownA.status, await errorOf(unknownA, "a")]).toEqual([404, "unknown_url"]);
    const unknownB = await gateway.post("/v1/messages/nope", {});
    expect([unknownB.status, await errorOf(unknownB, "b")]).toEqual([404, "not_found_error"]);
    const cut = await gateway.post("/v1/nope", "{");
    expect([cut.status, await errorOf(cut, "a")]).toEqual([404, "unknown_url"]);
    const methodA = await gateway.get("/v1/chat/completions");
    expect([methodA.status, methodA.headers.get("allow")]).toEqual([405, "POST"]);
    expect(await errorOf(methodA, "a")).toBe("method_not_allowed");
    const methodB = await gateway.get("/v1/messages");
    expect([methodB.status, await errorOf(methodB, "b")]).toEqual([405, "invalid_request_error"]);
  });

  test("query strings are ignored, and probes need no key", async () => {
    const response = await gateway.post("/v1/messages?beta=true", BODIES["/v1/messages"]);
    expect(response.status).toBe(200);
    for (const path of ["/", "/api/hello"])
      expect((await fetch(`${gateway.baseUrl}${path}`, { method: "HEAD" })).status).toBe(200);
  });

  test.each(POSTS)("bodies that are no JSON object are refused by $path", async ({ path, body, envelope }) => {
    const invalid = envelope === "a" ? "invalid_json" : "invalid_request_error";
    const cut = await gateway.post(path, "{");
    expect([cut.status, await errorOf(cut, envelope)]).toEqual([400, invalid]);
    for (const text of ["[]", '"x"', "", "null"]) expect((await gateway.post(path, text)).status).toBe(400);
    const plain = await gateway.post(path, body, { "content-type": "text/plain" });
    expect(plain.status).toBe(415);
    await errorOf(plain, envelope);
    const charset = await gateway.post(path, body, { "content-type": "application/json; charset=utf-8" });
    expect(charset.status).toBe(200);
  });

  test("every reply has one request id in both headers", async () => {
    for (const response of [
      await gateway.get("/v1/models"),
      await gateway.post("/v1/nope", {}),
      await gateway.post("/v1/chat/completions", { ...BODIES["/v1/chat/completions"], stream: true }),
    ]) {
      expect(response.headers.get("x-request-id")).toMatch(/^req_[0-9A-Za-z]{24,}$/);
      expect(response.headers.get("request-id")).toBe(response.headers.get("x-request-id"));
      await response.text();
    }
  });
});

describe("a body above the limit", () => {
  let small: RunningGateway;
  beforeAll(async () => {
    small = await startGateway([engine.address], { maxBodyBytes: 2_048 });
  });
  afterAll(() => small.stop());

  test.each(POSTS)("is 413 in the envelope of $path", async ({ path, body, envelope }) => {
    const large = JSON.stringify({ ...body, padding: "x".repeat(4_096) });
    const declared = await small.post(path, large);
    expect(declared.status).toBe(413);
    expect(await errorOf(declared, envelope)).toBe("request_too_large");
    const chunked = await fetch(`${small.baseUrl}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${small.key}`, "content-type": "application/json" },
      body: new Blob([large]).stream(),
      duplex: "half",
    } as RequestInit);
    expect(chunked.status).toBe(413);
    expect(await errorOf(chunked, envelope)).toBe("request_too_large");
  });
});

test("no text of a request or an answer is in the log", async () => {
  const canary = "CANARY-7Q2X";
  for (const { path, body } of POSTS) {
    const withCanary = JSON.parse(JSON.stringify(body).replaceAll('"hi"', `"${canary}"`));
    await (await gateway.post(path, { ...withCanary, [canary]: canary })).text();
    await (await gateway.post(`${path}?${canary}`, `{"${canary}`)).text();
  }
  const log = gateway.log.join("");
  expect(log).toContain('"route":"/v1/chat/completions"');
  expect(log).not.toContain("CANARY");
  expect(log).not.toContain("scripted answer");
  expect(log).not.toContain(gateway.key.slice(21, 60));
});
