import { join } from "node:path";
import { expect, test } from "vitest";
import { SGLANG } from "../../../../../../engine/backends/openai-compatible/engines/sglang.ts";
import type { JsonFields } from "../../../../../../engine/backends/openai-compatible/http/json-fields.ts";

/** A folder whose generation_config.json has temperature 0.6 and top_k 20. */
const MODEL = join(import.meta.dirname, "../../../../../support/dialects/stand-in-model");
const PREFERRED = { temperature: 0.3, presence_penalty: 1.5 };

/** The engine is asked nothing beside its page. */
const NO_CALL = Object.assign(async () => ({}), {
  tokens: () => Promise.reject(new Error("no tokens are asked for")),
});

test.each<[string, JsonFields, object]>([
  ["the model's configuration", { model_path: MODEL, sampling_defaults: "model" }, { temperature: 0.6, topK: 20 }],
  [
    "the operator's before the model's",
    { model_path: MODEL, sampling_defaults: "model", preferred_sampling_params: PREFERRED },
    { temperature: 0.3, topK: 20, presencePenalty: 1.5 },
  ],
  ["none where the operator wants none", { model_path: MODEL, sampling_defaults: "openai" }, {}],
  ["the operator's alone", { model_path: "org/model", preferred_sampling_params: PREFERRED }, { temperature: 0.3 }],
])("beside SGLang the sampling parameters are %s", async (_which, info, expected) => {
  const found = await SGLANG.samplingDefaults?.(NO_CALL, "demo", async () => info);
  expect(found).toMatchObject(expected);
  if (info.sampling_defaults === "openai") expect(Object.values(found ?? {}).filter(Boolean)).toEqual([]);
});

test.each([{ model_path: "org/model" }, { model_path: import.meta.dirname }, {}])(
  "they are not known where no file of the model can be read (%j)",
  async (info) => {
    const found = SGLANG.samplingDefaults?.(NO_CALL, "demo", async () => info);
    await expect(found).resolves.toBeUndefined();
  },
);
