import { expect, test } from "vitest";
import { CATALOG } from "../../../gateway/catalog.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { expectErrorA } from "../../support/http/error-reply.ts";
import { valueAt } from "../../support/http/value-at.ts";

const service = serviceOfFile();

async function modelsOf(key: string): Promise<unknown[]> {
  const response = await service.gateway.get("/v1/models", { authorization: `Bearer ${key}` });
  const list: unknown = await response.json();
  expect(valueAt(list, "object")).toBe("list");
  return valueAt(list, "data") as unknown[];
}

const ids = (models: readonly unknown[]) => models.map((model) => valueAt(model, "id"));

test("case 19: the list holds the key's models, each with its four fields", async () => {
  const models = await modelsOf(service.gateway.key);
  expect(ids(models)).toEqual(CATALOG.map((model) => model.id));
  for (const model of models) {
    expect(model).toMatchObject({ object: "model", owned_by: "svc" });
    expect(Number.isInteger(valueAt(model, "created"))).toBe(true);
  }
  expect(await modelsOf(service.gateway.key)).toEqual(models);
});

test("case 20: keys with other rights see other lists", async () => {
  const one = await service.createKey("--name", "one", "--models", "svc-qwen");
  const two = await service.createKey("--name", "two", "--models", "svc-glm53,svc-minimax");
  expect(ids(await modelsOf(one))).toEqual(["svc-qwen"]);
  expect(ids(await modelsOf(two))).toEqual(["svc-glm53", "svc-minimax"]);
});

test("case 21: one model by its id, the same object as in the list", async () => {
  const response = await service.gateway.get("/v1/models/svc-qwen");
  expect(response.status).toBe(200);
  const listed = (await modelsOf(service.gateway.key)).find((model) => valueAt(model, "id") === "svc-qwen");
  expect(await response.json()).toEqual(listed);
});

test("case 22: an unknown model is 404", async () => {
  for (const id of ["unknown", "svc/glm53", "svc%2Fglm53"])
    await expectErrorA(await service.gateway.get(`/v1/models/${id}`), 404, "model_not_found", "model");
});

test("case 23: a model without access for the key is 404, worded like an unknown one", async () => {
  const key = await service.createKey("--name", "narrow", "--models", "svc-qwen");
  const get = (id: string) => service.gateway.get(`/v1/models/${id}`, { authorization: `Bearer ${key}` });
  const hidden = await expectErrorA(await get("svc-glm53"), 404, "model_not_found", "model");
  const unknown = await expectErrorA(await get("svc-none"), 404, "model_not_found", "model");
  expect(hidden.replace("svc-glm53", "M")).toBe(unknown.replace("svc-none", "M"));
});
