import type { OutputConstraint } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Tool } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import type { CompiledSchema } from "../../../grammar/validation/compiled-schemas.ts";
import type { ToolPlan } from "./chat-tools.ts";

/**
 * Returns the schemas of a request that an engine compiles: that of the answer, and those of required or strict tools.
 * Schemas that the model only sees are not checked. `tools` are all tools of the request, whose indexes name them in
 * errors.
 */
export function compiledSchemas(
  { shown, callable, mustCall }: Pick<ToolPlan, "shown" | "callable" | "mustCall">,
  constraint: OutputConstraint | undefined,
  tools: readonly Tool[] = shown,
): readonly CompiledSchema[] {
  const compiled = shown
    .filter(({ name, strict }) => strict || (mustCall && callable.has(name)))
    .map((tool) => schemaOf(tool, tools.indexOf(tool)));
  // A required call is a constraint of its own: the answer's is not sent.
  if (!mustCall && constraint?.kind?.$case === "jsonSchema")
    compiled.push({ text: constraint.kind.value.schemaJson, at: "output_constraint.json_schema.schema_json" });
  return compiled;
}

function schemaOf({ parametersJsonSchema }: Tool, index: number): CompiledSchema {
  return { text: parametersJsonSchema || "{}", at: `tools[${index}].parameters_json_schema` };
}
