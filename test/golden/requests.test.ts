import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { DEFAULT_CATALOG } from "../../gateway/catalog.ts";
import { chat } from "../../gateway/formats/chat/request.ts";
import { messages } from "../../gateway/formats/messages/request.ts";
import { responses } from "../../gateway/formats/responses/request.ts";
import { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { FORMAT_SETTINGS } from "../support/events/format-settings.ts";
import { parseJsonBody } from "../support/gateway/parse-json-body.ts";

/* The same conversation in each format becomes the same canonical request. */

const FOLDER = join(import.meta.dirname, "requests");

const context = {
  sealer: () => ({ sign: () => "", seal: () => "", open: () => undefined }),
  acceptsImages: () => false,
  settings: FORMAT_SETTINGS,
  catalog: DEFAULT_CATALOG,
  usableModels: [],
} as const;

describe.each(readdirSync(FOLDER))("request %s", (scenario) => {
  test.each([chat, messages, responses])("means the same as $name", async (format) => {
    const body = parseJsonBody(readFileSync(join(FOLDER, scenario, `${format.name}.json`)));
    const { model, request } = format.prepare(body, context);
    expect(model).toBe(request.model);
    const canonical = GenerateRequest.toJSON(GenerateRequest.fromPartial(request));
    const text = `${JSON.stringify(canonical, undefined, 2)}\n`;
    await expect(text).toMatchFileSnapshot(join(FOLDER, scenario, "generate-request.json"));
  });
});
