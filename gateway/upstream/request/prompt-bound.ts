import { type Message, Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { ModelDescription } from "../../../proto/gen/svc/inference/v1/node_service.ts";

export type Beyond = {
  readonly tokens: number;
  readonly window: number;
};

/** The prompt limits of an endpoint: its context window, in tokens, and the size of the longest token, in bytes. */
export type PromptBound = Pick<ModelDescription, "contextWindow" | "longestTokenBytes">;

/**
 * Returns the distinct limits of some endpoints, by their descriptions of a model: empty where one of them does not
 * report enough. Undefined stands for an endpoint without a description.
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
 * Determines without tokenizing whether a prompt is too long for all endpoints: user texts of `bytes` bytes have at
 * least `bytes / longestTokenBytes` tokens. Returns undefined where the prompt may fit one, or no limits are reported.
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

/** The least bytes of the users' texts, without white space at their ends: a UTF-16 unit has at least one. */
export function userTextBytes(messages: readonly Message[]): number {
  let units = 0;
  for (const { role, parts } of messages) {
    if (role !== Role.USER) continue;
    for (const { kind } of parts) if (kind?.$case === "text") units += kind.value.text.trim().length;
  }
  return units;
}
