import { randomBytes } from "node:crypto";
import type { Message } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { ModelProfile } from "../../profiles/profile.ts";

/**
 * Returns a function that creates ids for the calls to which the model gave none, in the form that its template
 * requires in the next turn.
 */
export function newCallIds(rule: ModelProfile["callIds"], history: readonly Message[]): (toolName: string) => string {
  switch (rule) {
    case "any":
      return () => `call_${randomBytes(12).toString("hex")}`;
    case "nine-characters":
      return () => randomBytes(5).toString("hex").slice(0, 9);
    case "functions.name:index": {
      let index = history
        .flatMap(({ parts }) => parts)
        .reduce((count, { kind }) => count + (kind?.$case === "toolCall" ? 1 : 0), 0);
      return (toolName) => `functions.${toolName}:${index++}`;
    }
  }
}
