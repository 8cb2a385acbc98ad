import { describe, expect, test } from "vitest";
import { DEFAULT_CATALOG } from "../../../../../gateway/catalog.ts";
import { contractCount, contractGenerate } from "../../../../../gateway/formats/contract/request.ts";
import type { PrepareContext } from "../../../../../gateway/formats/format.ts";
import {
  Continuation,
  CountTokensRequest,
  GenerateRequest,
} from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { FORMAT_SETTINGS } from "../../../../support/events/format-settings.ts";
import { generateRequest } from "../../../../support/requests/generate-request.ts";
import { faultOf, thrownBy } from "../thrown-by.ts";

const context: PrepareContext = {
  sealer: () => {
    throw new Error("the contract seals nothing");
  },
  acceptsImages: () => false,
  settings: FORMAT_SETTINGS,
  catalog: DEFAULT_CATALOG,
  usableModels: [],
};
const prepare = (fields: Partial<GenerateRequest> = {}) =>
  contractGenerate.prepare(Buffer.from(GenerateRequest.encode(generateRequest(fields)).finish()), context);

describe("Generate", () => {
  test("passes on the fields that a caller may set, and no others", () => {
    const { request } = prepare({ tenant: "another", requestId: "own", maxOutputTokens: 5 });
    expect(request).toMatchObject({ model: "svc-qwen", maxOutputTokens: 5 });
    expect(Object.keys(request)).not.toEqual(expect.arrayContaining(["tenant", "requestId"]));
  });

  test("gets no more tokens than the window holds", () => {
    expect(prepare({ maxOutputTokens: 10_000_000 }).request.maxOutputTokens).toBe(262_144);
    expect(prepare().request.maxOutputTokens).toBeUndefined();
    expect(faultOf(() => prepare({ maxOutputTokens: 0 })).param).toBe("max_output_tokens");
  });

  test("refuses a continuation by name, as the answer would silently start again", () => {
    expect(faultOf(() => prepare({ continuation: Continuation.create() })).param).toBe("continuation");
  });

  test("refuses an unknown model, and bytes that are not a message", () => {
    expect(faultOf(() => prepare({ model: "" })).param).toBe("model");
    expect(faultOf(() => prepare({ model: "gpt" })).code).toBe("model_not_found");
    expect(thrownBy(() => contractGenerate.prepare({}, context)).detail).toBe("message_unreadable");
  });
});

test("CountTokens has the same checks as Generate", () => {
  const count = (fields: object) => {
    const request = CountTokensRequest.create({ model: "svc-qwen", messages: generateRequest().messages, ...fields });
    return contractCount.prepare(Buffer.from(CountTokensRequest.encode(request).finish()), context);
  };
  expect(count({}).request).toMatchObject({ model: "svc-qwen", tools: [] });
  expect(faultOf(() => count({ messages: [] })).param).toBe("messages");
});
