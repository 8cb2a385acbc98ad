import { type Message, type Part, Role, type Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";

type Kind = NonNullable<Part["kind"]>;

export const part = (kind: Kind): Part => ({ kind, cacheBreakpoint: undefined });
export const text = (value: string): Part => part({ $case: "text", value: { text: value } });
export const reasoning = (value: string): Part =>
  part({ $case: "reasoning", value: { text: value, signature: Buffer.alloc(0), redacted: false } });
export const call = (name: string, argumentsJson: string, callId = "call_1"): Part =>
  part({ $case: "toolCall", value: { callId, name, argumentsJson } });
export const result = (content: string, name = "get_weather", callId = "call_1"): Part =>
  part({ $case: "toolResult", value: { callId, name, content: [text(content)], isError: false } });

/** Makes the declaration of deferred tools. */
export const declaration = (...names: readonly string[]): Part => part({ $case: "toolDeclaration", value: { names } });

export const system = (value: string): Message => ({ role: Role.SYSTEM, parts: [text(value)] });
export const user = (value: string): Message => ({ role: Role.USER, parts: [text(value)] });
export const assistant = (...parts: Part[]): Message => ({ role: Role.ASSISTANT, parts });
export const toolResult = (content: string): Message => ({ role: Role.TOOL, parts: [result(content)] });

/** Makes a tool with one string parameter, unless a schema is given. */
export function tool(name: string, description: string, schema?: object): Tool {
  const parameters = schema ?? { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
  return {
    name,
    description,
    parametersJsonSchema: JSON.stringify(parameters),
    strict: false,
    deferred: false,
    cacheBreakpoint: undefined,
  };
}
