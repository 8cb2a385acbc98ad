import * as z from "zod";
import { mark } from "./marks.ts";
import { toolCallForm } from "./tool-call-form.ts";

/** Calls that only the engine's own parser reads: the node treats them as text. */
export const engineOnly = toolCallForm({
  schema: z
    .strictObject({ form: z.literal("engine-only"), open: mark.describe("The mark before a call.") })
    .describe("Only the parser of the engine that serves the model reads it."),
  usable: () => undefined,
  reading: () => undefined,
  markup: () => undefined,
});
