import type { OutputConstraint } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { JsonObject } from "../../json/json-text.ts";
import { schemaText } from "../json-schema-limits.ts";
import type { ResponsesBody } from "./schema.ts";

/**
 * The meaning of `text.format`: `constraint` is enforced by the engine, undefined for free text, and `echo` is the
 * reply's repetition of it.
 */
export type TextFormat = { readonly constraint: OutputConstraint | undefined; readonly echo: JsonObject };

/** Reads a checked `text.format`; absent is free text. Throws `ApiError` for a schema beyond the limits. */
export function textFormat(format: NonNullable<ResponsesBody["text"]>["format"]): TextFormat {
  switch (format?.type) {
    case "json_object":
      return { constraint: { kind: { $case: "jsonObject", value: {} } }, echo: { type: "json_object" } };
    case "json_schema": {
      const { name, schema, description } = format;
      const strict = format.strict ?? false;
      const schemaJson = schemaText(schema, ["text", "format", "schema"], "response", strict);
      return {
        constraint: { kind: { $case: "jsonSchema", value: { name, schemaJson, strict } } },
        echo: { type: "json_schema", name, description: description ?? null, schema, strict },
      };
    }
    default:
      return { constraint: undefined, echo: { type: "text" } };
  }
}
