import { namesDeclared } from "../../../deploy/runtime/contract/shown-tools.ts";
import { type Message, type Part, Role, type Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { parametersOf } from "./template-messages.ts";

type Undeclared = Map<string, { readonly tool: Tool; readonly index: number }>;

/**
 * Replaces declarations by text: a deferred tool is written where the first declaration names it, as JSON like that of
 * most templates. The text is the conversation's, so that no template and no tokenizer takes it for markup, and nothing
 * before it changes. Throws `EngineError` INVALID_SCHEMA.
 */
export function withDeclaredTools(messages: readonly Message[], tools: readonly Tool[]): readonly Message[] {
  const undeclared: Undeclared = new Map(
    tools.flatMap((tool, index) => (tool.deferred ? [[tool.name, { tool, index }]] : [])),
  );
  if (undeclared.size === 0) return messages;
  return messages.map((message) =>
    message.role !== Role.ASSISTANT && message.parts.some((part) => namesDeclared(part).length > 0)
      ? { ...message, parts: message.parts.map((part) => declaring(part, undeclared)) }
      : message,
  );
}

function declaring(part: Part, undeclared: Undeclared): Part {
  const { kind } = part;
  if (kind?.$case === "toolResult") {
    const content = kind.value.content.map((inner) => declaring(inner, undeclared));
    return { ...part, kind: { ...kind, value: { ...kind.value, content } } };
  }
  if (kind?.$case !== "toolDeclaration") return part;
  const texts = kind.value.names.flatMap((name) => {
    const found = undeclared.get(name);
    undeclared.delete(name);
    return found ? [toolText(found.tool, found.index)] : [];
  });
  // Absent, not empty: an empty text would add a line.
  return { ...part, kind: texts.length === 0 ? undefined : { $case: "text", value: { text: texts.join("\n") } } };
}

/** Returns a tool as JSON, as most templates write it. Throws `EngineError` INVALID_SCHEMA. */
export function toolText(tool: Tool, index: number): string {
  const { name, description } = tool;
  const described = description === "" ? "" : `, "description": ${JSON.stringify(description)}`;
  const called = `{"name": ${JSON.stringify(name)}${described}, "parameters": ${parametersOf(tool, index)}}`;
  return `{"type": "function", "function": ${called}}`;
}
