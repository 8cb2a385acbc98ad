import { describe, expect, test } from "vitest";
import { checkConfig } from "../../../../deploy/runtime/config/load-config.ts";
import { CATALOG, findModel } from "../../../../gateway/catalog.ts";
import { gatewayConfigSchema } from "../../../../gateway/config.ts";

const check = (catalog: object | undefined, more: object = {}) =>
  checkConfig(gatewayConfigSchema, { keys: { file: "keys.json" }, clusters: [], catalog, ...more }, "gateway.yaml");

const OWN = { id: "own", contextWindow: 8_192, displayName: "Own" };

test("the five models are the catalog by default, and no other name is one of theirs", () => {
  expect(check(undefined).catalog).toEqual({ models: CATALOG, aliases: {} });
  expect(CATALOG.map(({ id }) => id)).toEqual(["svc-glm53", "svc-kimik3", "svc-qwen", "svc-minimax", "svc-dsv4flash"]);
});

test("further names lead to models, beside the default ones or others", () => {
  const { catalog } = check({ aliases: { "claude-sonnet-5": "svc-glm53" } });
  expect(findModel("claude-sonnet-5", catalog)?.id).toBe("svc-glm53");
  expect(findModel("svc-qwen", catalog)?.id).toBe("svc-qwen");
  expect(findModel("constructor", catalog)).toBeUndefined();
});

describe("refuses with the path of the mistake", () => {
  test.each<[string, object, string]>([
    ["a model twice", { models: [OWN, OWN] }, "catalog.models.1.id"],
    ["no model", { models: [] }, "catalog.models"],
    ["an id that is no name", { models: [{ ...OWN, id: "a/b" }] }, "catalog.models.0.id"],
    ["a further name for no model", { aliases: { other: "svc-none" } }, "catalog.aliases.other"],
    ["a further name that is an id", { aliases: { "svc-qwen": "svc-glm53" } }, "catalog.aliases.svc-qwen"],
  ])("%s", (_, catalog, path) => {
    expect(() => check(catalog)).toThrow(path);
  });

  test("a cluster of a model that is not in the catalog", () => {
    const clusters = [{ model: "svc-qwen", endpoints: [{ address: "a:1" }] }];
    expect(() => check({ models: [OWN] }, { clusters })).toThrow("clusters.0.model");
    expect(check({ models: [{ ...OWN, id: "svc-qwen" }] }, { clusters }).clusters).toHaveLength(1);
  });
});
