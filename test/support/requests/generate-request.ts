import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { GenerateRequest as Requests } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, Role, type Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";

export function textMessage(role: Role, text: string): Message {
  return { role, parts: [{ kind: { $case: "text", value: { text } }, cacheBreakpoint: undefined }] };
}

export function toolOf(name: string, schema: object): Tool {
  const parametersJsonSchema = JSON.stringify(schema);
  return { name, description: "", parametersJsonSchema, strict: false, deferred: false, cacheBreakpoint: undefined };
}

export function generateRequest(fields: Partial<GenerateRequest> = {}, text = "hello"): GenerateRequest {
  const messages = [textMessage(Role.USER, text)];
  return { ...Requests.create(), requestId: "r1", model: "svc-qwen", messages, ...fields };
}
