import { describe, expect, test } from "vitest";
import { CATALOG } from "../../../../gateway/catalog.ts";
import { errorObjectA, messageOf, statusOf } from "../../../../gateway/formats/error-envelope.ts";
import { catalogModel, requestBody } from "../../../../gateway/formats/request-body.ts";
import { faultOf, thrownBy } from "./thrown-by.ts";

const context = { catalog: { models: CATALOG, aliases: { "claude-haiku": "svc-qwen" } }, usableModels: [] };

describe("a request body", () => {
  test.each([[[]], [null], ["x"], [3], [undefined]])("%j is not one", (body) => {
    const error = thrownBy(() => requestBody(body));
    expect(statusOf(error, "a")).toBe(400);
    expect(errorObjectA(error)).toMatchObject({ code: "invalid_type", param: null });
  });

  test("names a model of the catalog, by its id or a further name", () => {
    expect(catalogModel("svc-qwen", context).contextWindow).toBe(262_144);
    expect(catalogModel("claude-haiku", context).id).toBe("svc-qwen");
  });

  test.each([
    [undefined, "missing_required_parameter"],
    [null, "missing_required_parameter"],
    [7, "invalid_type"],
    ["", "model_not_found"],
    ["gpt-4o", "model_not_found"],
    ["svc/qwen", "model_not_found"],
    ["toString", "model_not_found"],
  ])("the model %j is refused with %s", (model, code) => {
    expect(faultOf(() => catalogModel(model, context))).toEqual({ code, param: "model" });
  });
});

describe("the refusal of an unknown model", () => {
  const refusal = (model: string, usableModels: readonly string[] = []) =>
    thrownBy(() => catalogModel(model, { ...context, usableModels }));

  test("is a fault of the request; it names the model and the models of the key", () => {
    const error = refusal("claude-opus-5-5", ["svc-glm53", "svc-qwen"]);
    expect(statusOf(error, "a")).toBe(400);
    expect(messageOf(error, "a")).toBe(
      "The model 'claude-opus-5-5' does not exist. Your key can use: svc-glm53, svc-qwen.",
    );
    expect(messageOf(error, "b")).toMatch(/^model: The model /);
  });

  test("names some of many models only, and refers to the list if there are none", () => {
    const many = Array.from({ length: 40 }, (_, at) => `m${at}`);
    expect(refusal("x", many).message).toMatch(/: m0, .*, m15, and others, which GET \/v1\/models lists\.$/);
    expect(refusal("x").message).toContain("GET /v1/models lists the models of your key.");
  });

  test.each([
    ["a key of ours", `svc_live_${"k".repeat(12)}_${"s".repeat(43)}`],
    ["a long text", "k".repeat(49)],
    ["words", "hidden word"],
    ["a line break", "hidden\nword"],
  ])("does not repeat %s", (_, model) => {
    expect(refusal(model).message).toMatch(/^The model does not exist\./);
  });
});
