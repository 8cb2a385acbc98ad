import { type Message, Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import type { ModelDescription } from "../../proto/gen/svc/inference/v1/node_service.ts";

/** A prompt that no endpoint can take. */
export type Beyond = {
  /** The least number of tokens that the prompt has. */
  readonly tokens: number;
  /** The largest context window, in tokens. */
  readonly window: number;
};

/** What bounds the prompts that an endpoint takes: its context window, in tokens, and the size of the longest token, in bytes. */
export type PromptBound = Pick<ModelDescription, "contextWindow" | "longestTokenBytes">;

/**
 * Returns the different bounds of some endpoints, by what they say of a model: none where one of them does not say enough.
 * Undefined stands for an endpoint that has not described itself.
 */
export function promptBounds(descriptions: Iterable<ModelDescription | undefined>): readonly PromptBound[] {
  const bounds = new Map<string, PromptBound>();
  for (const description of descriptions) {
    const { contextWindow = 0, longestTokenBytes = 0 } = description ?? {};
    if (contextWindow === 0 || longestTokenBytes === 0) return [];
    bounds.set(`${contextWindow} ${longestTokenBytes}`, { contextWindow, longestTokenBytes });
  }
  return [...bounds.values()];
}

/**
 * Finds out whether a prompt is too long for all endpoints, without its tokens: the text of user messages has at least as many
 * as the longest token goes into it, and `bytes` of it. Returns undefined where it may fit one, or where nothing is known of
 * them.
 */
export function beyondBounds(bytes: number, bounds: readonly PromptBound[]): Beyond | undefined {
  let beyond: Beyond | undefined;
  for (const { contextWindow: window, longestTokenBytes } of bounds) {
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
