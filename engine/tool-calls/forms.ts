import * as z from "zod";
import { bareKeys } from "./bare-keys.ts";
import { bareJson, json, jsonList } from "./json-forms.ts";
import { sections } from "./sections.ts";
import { elementTags, keyValueTags, namedTags } from "./tagged-forms.ts";
import { type CallBehaviour, mark, toolCallForm } from "./tool-call-form.ts";

/** Calls that only the engine's own parser reads: the node treats them as text. */
const engineOnly = toolCallForm({
  schema: z
    .strictObject({ form: z.literal("engine-only"), open: mark.describe("The mark before a call.") })
    .describe("Only the parser of the engine that serves the model reads it."),
  usable: () => undefined,
  reading: () => undefined,
  markup: () => undefined,
});

const FORMS = {
  json,
  "bare-json": bareJson,
  "json-list": jsonList,
  sections,
  "key-value-tags": keyValueTags,
  "named-tags": namedTags,
  "element-tags": elementTags,
  "bare-keys": bareKeys,
  "engine-only": engineOnly,
};

type FormName = keyof typeof FORMS;
type MarkersByForm = { readonly [Form in FormName]: Readonly<z.output<(typeof FORMS)[Form]["schema"]>> };

const BEHAVIOURS: { readonly [Form in FormName]: CallBehaviour<MarkersByForm[Form]> } = FORMS;

const { json: first, ...others } = FORMS;

export const toolCallMarkers = z.discriminatedUnion("form", [
  first.schema,
  ...Object.values(others).map(({ schema }) => schema),
]);

/** White space around a mark is the template's; a model may omit or change it, except around a value. */
export type ToolCallMarkers = MarkersByForm[FormName];

export function formOf<Form extends FormName>(markers: { readonly form: Form }): CallBehaviour<MarkersByForm[Form]> {
  return BEHAVIOURS[markers.form];
}
