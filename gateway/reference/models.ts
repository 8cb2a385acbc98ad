import * as z from "zod";
import { named, tag } from "./shape.ts";

/* The replies of `GET /v1/models` and `GET /v1/models/{model}`. */

/** A model as callers see it. */
export const model = named("Model", "A model that the key may use.", {
  id: z.string().describe("The id of the model."),
  object: tag("model"),
  created: z.int().describe("A constant time, in seconds since the epoch."),
  owned_by: z.string().describe("Whose model it is: `svc`."),
  type: tag("model"),
  display_name: z.string().describe("The name of the model for people."),
  created_at: z.string().describe("The same time as `created`, as RFC 3339."),
  context_window: z.int().describe("The most tokens that prompt and answer may have together."),
  max_model_len: z.int().describe("Another name of `context_window`."),
});

/** The list of models. */
export const modelList = named("ModelList", "The models that the key may use.", {
  object: tag("list"),
  data: z.array(model).describe("The models, in an order that stays the same."),
  has_more: z.boolean().describe("Always `false`: the list is whole."),
  first_id: z.string().nullable().describe("The id of the first model; null where there is none."),
  last_id: z.string().nullable().describe("The id of the last model; null where there is none."),
});
