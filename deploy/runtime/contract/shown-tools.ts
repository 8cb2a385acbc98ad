import type { Message, Part, Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";

/** Returns the tools that the model reads: of the deferred ones only those that a message declares. */
export function shownTools(tools: readonly Tool[], messages: readonly Message[]): readonly Tool[] {
  if (!tools.some(({ deferred }) => deferred)) return tools;
  const declared = new Set(messages.flatMap(({ parts }) => parts.flatMap(namesDeclared)));
  return tools.filter(({ name, deferred }) => !deferred || declared.has(name));
}

/** Returns the names of the tools that a part of a message declares, or the content of its tool result. */
export function namesDeclared({ kind }: Part): readonly string[] {
  if (kind?.$case === "toolDeclaration") return kind.value.names;
  return kind?.$case === "toolResult" ? kind.value.content.flatMap(namesDeclared) : [];
}
