/*
 * The API description of the service as elements: its operations, with the fields of requests and replies. The content
 * of a part is created when it is first opened, because objects may contain each other. Everything is written as text.
 */

import { make } from "./dom.js";
import { fold } from "./fold.js";
import { inline } from "./markdown.js";

/** Returns the forms that a value may have, without null. */
function formsOf(schema) {
  const forms = schema.anyOf ?? schema.oneOf;
  if (forms) return forms.flatMap(formsOf);
  return schema.type === "null" ? [] : [schema];
}

const nameOf = ({ $ref }) => $ref.split("/").at(-1);

/** Returns the type of a value in words. */
function typeOf(schema) {
  const words = formsOf(schema).map((form) => {
    if (form.$ref) return nameOf(form);
    if (form.const !== undefined) return JSON.stringify(form.const);
    if (form.enum) return form.enum.map((value) => JSON.stringify(value)).join(", ");
    if (form.type === "array") return `list of ${form.items ? typeOf(form.items) : "anything"}`;
    return [form.type ?? "anything"].flat().join(" or ").replace(" or null", "");
  });
  return [...new Set(words)].join(" or ");
}

/** Shows the fields of what a value may be; objects in them, named or not, are folded. */
function showFields(parent, schema, schemas) {
  for (const form of formsOf(schema)) {
    if (form.$ref) fold(parent, nameOf(form), "", (part) => showFields(part, schemas[nameOf(form)] ?? {}, schemas));
    else if (form.items) showFields(parent, form.items, schemas);
    else if (form.properties) {
      const list = make("dl", parent);
      for (const [name, value] of Object.entries(form.properties)) {
        const term = make("dt", list);
        make("code", term, name);
        term.append(` ${typeOf(value)}${form.required?.includes(name) ? ", required" : ""}`);
        const meaning = make("dd", list);
        inline(meaning, value.description ?? "");
        showFields(meaning, value, schemas);
      }
    }
  }
}

/** Shows the operations of an API description. */
export function showReference(place, { paths, components: { schemas } }) {
  for (const [path, methods] of Object.entries(paths))
    for (const [method, { summary, requestBody, responses }] of Object.entries(methods))
      fold(place, `${method.toUpperCase()} ${path}`, summary, (part) => {
        const body = requestBody?.content["application/json"]?.schema;
        if (body) fold(part, "request", "", (inner) => showFields(inner, schemas[nameOf(body)] ?? {}, schemas));
        for (const [status, { description, content = {} }] of Object.entries(responses))
          fold(part, status, description, (inner) => {
            for (const { schema } of Object.values(content)) showFields(inner, schema, schemas);
          });
      });
}
