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

/** All forms of tool call, by the name that a profile gives in `toolCall.form`. */
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

/** The schema of the `toolCall` of a profile: the form of a family's calls, and its marks. */
export const toolCallMarkers = z.discriminatedUnion("form", [
  first.schema,
  ...Object.values(others).map(({ schema }) => schema),
]);

/**
 * The marks with which a family of models writes tool calls. White space at the ends of a mark is what the template
 * writes there; a model may leave it out or write other white space, except around a value.
 */
export type ToolCallMarkers = MarkersByForm[FormName];

/** Returns what is done with the form of call to which the markers belong; they are to be handed to its functions. */
export function formOf<Form extends FormName>(markers: { readonly form: Form }): CallBehaviour<MarkersByForm[Form]> {
  return BEHAVIOURS[markers.form];
}
