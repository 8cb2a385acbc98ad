import { type Message, type Part, Role } from "../../../proto/gen/svc/inference/v1/messages.ts";

/** The conversation in short form: a role with its parts, and `@` before the seconds of a breakpoint. */
export function outline({ messages }: { readonly messages: readonly Message[] }): string {
  const turns = messages.map(({ role, name, parts }) => {
    const word = Object.keys(Role).find((key) => Reflect.get(Role, key) === role) ?? "";
    return [`${word.toLowerCase()}${name === undefined ? "" : `(${name})`}`, ...parts.map(partOutline)].join(" ");
  });
  return turns.join(" | ");
}

function partOutline({ kind, cacheBreakpoint }: Part): string {
  const mark = cacheBreakpoint ? `@${cacheBreakpoint.ttl?.seconds ?? ""}` : "";
  switch (kind?.$case) {
    case "text":
      return JSON.stringify(kind.value.text) + mark;
    case "reasoning":
      return `thought ${JSON.stringify(kind.value.text)}${mark}`;
    case "toolCall":
      return `call(${kind.value.callId} ${kind.value.name} ${kind.value.argumentsJson})${mark}`;
    case "toolResult": {
      const { callId, name, content, isError } = kind.value;
      return `${isError ? "failure" : "result"}(${[callId, name, ...content.map(partOutline)].join(" ")})${mark}`;
    }
    case "toolDeclaration":
      return `declares(${kind.value.names.join(" ")})${mark}`;
    default:
      return `${kind?.value.mimeType} ${kind?.value.detail}${mark}`;
  }
}
