import { isDeepStrictEqual } from "node:util";
import { must } from "./machine.ts";
import { checkFinishedItem, type OpenItem, type ReasoningAsked } from "./response-item-check.ts";
import { asCount, asId, asObject, asPiece, asText, exactKeys, type JsonObject } from "./shape.ts";

/** Fields that differ between the lifecycle events of one response; all others are the same in each. */
const CHANGING = ["status", "completed_at", "error", "incomplete_details", "output", "output_text", "usage"] as const;

const ECHOED = [
  "id",
  "object",
  "created_at",
  "background",
  "frequency_penalty",
  "instructions",
  "max_output_tokens",
  "max_tool_calls",
  "metadata",
  "model",
  "parallel_tool_calls",
  "presence_penalty",
  "previous_response_id",
  "prompt_cache_key",
  "prompt_cache_retention",
  "reasoning",
  "safety_identifier",
  "service_tier",
  "store",
  "temperature",
  "text",
  "tool_choice",
  "tools",
  "top_logprobs",
  "top_p",
  "truncation",
  "user",
] as const;

/**
 * Returns the part of a response that no event may change ("Response object" in formats/README.md). Throws
 * `StreamFault` when it is not well formed.
 */
export function checkedIdentity(response: JsonObject): string {
  exactKeys(
    response,
    [...ECHOED, ...CHANGING].filter((key) => key !== "output_text"),
    ["output_text"],
  );
  asId(response.id, "resp_");
  asCount(response.created_at, "created_at");
  asPiece(response.model, "model");
  must(response.object === "response", "object is response");
  must(response.store === false && response.background === false, "nothing is stored or done in the background");
  return JSON.stringify(ECHOED.map((key) => response[key]));
}

/** Throws `StreamFault` unless the response is in progress, without fields that are only known at its end. */
export function checkInProgress(response: JsonObject): void {
  must(response.status === "in_progress", "the status is in_progress");
  must(Array.isArray(response.output) && response.output.length === 0, "output is empty at the start");
  for (const key of ["completed_at", "error", "incomplete_details", "usage"])
    must(response[key] === null, `${key} is null at the start`);
}

/**
 * Throws `StreamFault` unless this is the final response: `items` are those announced as done, and a failed response
 * also holds the item that was open, as far as it was generated.
 */
export function checkFinal(
  response: JsonObject,
  status: string,
  items: readonly JsonObject[],
  open: OpenItem | undefined,
  asked: ReasoningAsked,
): void {
  must(response.status === status, "the status is that of the event");
  must((response.completed_at !== null) === (status === "completed"), "completed_at is set when completed");
  must((response.error !== null) === (status === "failed"), "error is set when failed");
  must((response.incomplete_details !== null) === (status === "incomplete"), "incomplete_details when incomplete");
  must(Array.isArray(response.output), "output is a list");
  const done = response.output.slice(0, items.length);
  must(isDeepStrictEqual(done, items), "output holds the items that were announced as done");
  checkRest(response.output.slice(items.length), open, asked);
  must(response.output_text === textOf(response.output), "output_text is the text of all messages");
  checkStatusOfItems(response.output, status);
  if (status === "failed") {
    const error = asObject(response.error, "error");
    exactKeys(error, ["code", "message"]);
    asPiece(error.code, "code");
    asPiece(error.message, "message");
    must(response.usage === null, "a failed response has no usage");
  } else {
    checkUsage(asObject(response.usage, "usage"));
  }
  if (status === "incomplete") {
    const { reason } = asObject(response.incomplete_details, "incomplete_details");
    must(reason === "max_output_tokens" || reason === "content_filter", "the reason is one of the format's");
  }
}

function checkRest(rest: readonly unknown[], open: OpenItem | undefined, asked: ReasoningAsked): void {
  must(rest.length === (open ? 1 : 0), "output holds what was announced and nothing else");
  if (!open) return;
  const item = asObject(rest[0], "item");
  must(item.status === "incomplete", "an item that broke off is incomplete");
  checkFinishedItem(item, open, asked);
}

/** Checks the status of the items: only the last one can be truncated, and only in an incomplete answer. */
function checkStatusOfItems(output: readonly unknown[], status: string): void {
  for (const [at, item] of output.entries()) {
    const mayBeCut = at === output.length - 1 && status !== "completed";
    const { status: own } = asObject(item, "item");
    must(own === "completed" || (mayBeCut && own === "incomplete"), "an item is completed unless the answer was cut");
  }
}

function checkUsage(usage: JsonObject): void {
  exactKeys(usage, ["input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details", "total_tokens"]);
  const input = asCount(usage.input_tokens, "input_tokens");
  const output = asCount(usage.output_tokens, "output_tokens");
  must(usage.total_tokens === input + output, "total_tokens is the sum");
  const details = asObject(usage.input_tokens_details, "input_tokens_details");
  exactKeys(details, ["cached_tokens", "cache_write_tokens"]);
  must(asCount(details.cached_tokens, "cached_tokens") <= input, "cached tokens are part of the input");
  asCount(details.cache_write_tokens, "cache_write_tokens");
  const outputDetails = asObject(usage.output_tokens_details, "output_tokens_details");
  exactKeys(outputDetails, ["reasoning_tokens"]);
  asCount(outputDetails.reasoning_tokens, "reasoning_tokens");
}

function textOf(output: readonly unknown[]): string {
  return output
    .map((value) => {
      const item = asObject(value, "item");
      if (item.type !== "message" || !Array.isArray(item.content)) return "";
      return item.content.map((part) => asText(asObject(part, "part").text, "text")).join("");
    })
    .join("");
}
