import { expect, test } from "vitest";
import { CATALOG } from "../../../gateway/catalog.ts";
import { REPLY_HEADERS } from "../../../gateway/reference/headers.ts";
import { openApiDocument } from "../../../gateway/reference/openapi.ts";
import { transcript } from "../../support/events/transcripts.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { documentedPaths, pathsOf } from "../../support/schemas/documented-paths.ts";

const DOCUMENT = openApiDocument(CATALOG.map(({ id }) => id));

const service = serviceOfFile({ gateway: { cacheHeader: true } }, transcript("plain_text"));

test("the contract needs no key, so that browsers can open it", async () => {
  const reply = await service.gateway.get("/openapi.json", { authorization: "Bearer wrong" });
  expect(reply.status).toBe(200);
  expect(reply.headers.get("content-type")).toBe("application/json; charset=utf-8");
  expect(await reply.json()).toEqual(JSON.parse(JSON.stringify(DOCUMENT)));
  expect((await fetch(`${service.gateway.baseUrl}/openapi.json`)).status).toBe(200);
});

test.each([
  ["/v1/models?client_version=0.171.0", "ModelList"],
  ["/v1/models/svc-qwen", "Model"],
])("%s has exactly the documented fields", async (path, name) => {
  const body: unknown = await (await service.gateway.get(path)).json();
  const documented = documentedPaths(DOCUMENT.components.schemas, [name]);
  expect([...new Set(pathsOf(body))].toSorted()).toEqual([...documented.all].toSorted());
});

const HTTP_HEADERS = ["date", "keep-alive", "content-length", "transfer-encoding"];

const turn = { model: "svc-qwen", messages: [{ role: "user", content: "hi" }] };

const REQUESTS = [
  ["/v1/chat/completions", { ...turn }],
  ["/v1/chat/completions", { ...turn, stream: true }],
  ["/v1/chat/completions", { model: "none" }],
  ["/v1/messages", { ...turn, max_tokens: 10 }],
  ["/v1/messages", { ...turn, max_tokens: 10, stream: true }],
  ["/v1/messages", {}],
  ["/v1/responses", { model: "svc-qwen", input: "hi", stream: true }],
] as const;

test("replies have no header that is not documented, and all that are", async () => {
  const limits = ["--rpm", "1", "--itpm", "100000", "--otpm", "100000"];
  const seen = new Set<string>();
  for (const [path, body] of REQUESTS) {
    const key = await service.createKey("--name", `key-${seen.size}`, "--models", "all", ...limits);
    // The second request exceeds the limit.
    for (let repeat = 0; repeat < 2; repeat++) {
      const reply = await service.gateway.post(path, body, { authorization: `Bearer ${key}` });
      for (const name of reply.headers.keys()) seen.add(name);
      await reply.text();
    }
  }
  const wrongMethod = await service.gateway.get("/v1/messages");
  const wrongKey = await service.gateway.get("/v1/models", { authorization: "Bearer wrong" });
  for (const { headers } of [wrongMethod, wrongKey]) for (const name of headers.keys()) seen.add(name);
  const patterns = REPLY_HEADERS.map(({ name }) => new RegExp(`^${name.replaceAll("*", "[a-z-]+")}$`));
  const unknown = [...seen].filter((name) => !patterns.some((pattern) => pattern.test(name)));
  expect(unknown.filter((name) => !HTTP_HEADERS.includes(name))).toEqual([]);
  const unseen = REPLY_HEADERS.filter((_, at) => ![...seen].some((name) => patterns[at]?.test(name)));
  expect(unseen).toEqual([]);
});
