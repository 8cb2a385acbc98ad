import { type Message, Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import type { ModelDescription } from "../../proto/gen/svc/inference/v1/node_service.ts";

/** A prompt that no endpoint can take. */
export type Beyond = {
  /** The least number of tokens that the prompt has. */
  readonly tokens: number;
  /** The largest context window, in tokens. */
  readonly window: number;
};

/**
 * Finds out whether a prompt is too long for all endpoints of a cluster, without its tokens: the text of user messages has at
 * least as many as the longest token goes into it, and `bytes` of it. Returns undefined where it may fit one, or where one of
 * them does not say enough about itself; undefined stands for an endpoint that has not described itself. Of a
 * prompt that fits, the first endpoint that may take it ends the search.
 */
export function beyondWindows(bytes: number, descriptions: Iterable<ModelDescription | undefined>): Beyond | undefined {
  let beyond: Beyond | undefined;
  for (const description of descriptions) {
    const { contextWindow: window = 0, longestTokenBytes = 0 } = description ?? {};
    if (window === 0 || longestTokenBytes === 0) return undefined;
    const tokens = Math.floor(bytes / longestTokenBytes);
    if (tokens < window) return undefined;
    if (!beyond || window > beyond.window) beyond = { tokens, window };
  }
  return beyond;
}

/** Returns the least number of bytes in the texts of users, without the white space at their ends: a UTF-16 unit has one. */
export function userTextBytes(messages: readonly Message[]): number {
  let units = 0;
  for (const { role, parts } of messages) {
    if (role !== Role.USER) continue;
    for (const { kind } of parts) if (kind?.$case === "text") units += kind.value.text.trim().length;
  }
  return units;
}
