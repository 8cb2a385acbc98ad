import * as z from "zod";
import { bareJson } from "./bare-json.ts";
import { bareKeys } from "./bare-keys.ts";
import { elementTags } from "./element-tags.ts";
import { engineOnly } from "./engine-only.ts";
import { json } from "./json.ts";
import { jsonList } from "./json-list.ts";
import { keyValueTags } from "./key-value-tags.ts";
import { namedTags } from "./named-tags.ts";
import { sections } from "./sections.ts";
import type { CallBehaviour } from "./tool-call-form.ts";

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
