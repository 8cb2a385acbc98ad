import type { OutputConstraint } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { schemaText } from "../json-schema-limits.ts";
import type { ChatBody } from "./schema.ts";

/** Reads the `response_format` of a body; undefined for free text. Throws `ApiError` for a schema at fault. */
export function readResponseFormat(format: ChatBody["response_format"]): OutputConstraint | undefined {
  switch (format?.type) {
    case "json_object":
      return { kind: { $case: "jsonObject", value: {} } };
    case "json_schema": {
      const { name, schema, strict } = format.json_schema;
      const path = ["response_format", "json_schema", "schema"];
      const schemaJson = schemaText(schema, path, "response", strict ?? false);
      return { kind: { $case: "jsonSchema", value: { name, schemaJson, strict: strict ?? false } } };
    }
    default:
      return undefined;
  }
}
