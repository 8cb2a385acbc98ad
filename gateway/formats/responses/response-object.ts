import type { Finished } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Completion } from "../completion.ts";
import type { Head } from "../format.ts";
import { finishedItem, type OutputItem, type ReplyView } from "./output-item.ts";

/**
 * The fields of the response object that repeat the request under the format's own names, with the defaults that were
 * used.
 */
export type Echo = {
  readonly instructions: string | null;
  readonly max_output_tokens: number | null;
  readonly metadata: Readonly<Record<string, string>>;
  /** The catalog id of the model, whichever form the request used. */
  readonly model: string;
  readonly parallel_tool_calls: boolean;
  readonly prompt_cache_key: string | null;
  readonly prompt_cache_retention: string | null;
  readonly reasoning: { readonly effort: string | null; readonly summary: string | null };
  readonly safety_identifier: string | null;
  readonly temperature: number;
  readonly text: { readonly format: object; readonly verbosity: string };
  readonly tool_choice: unknown;
  readonly tools: readonly object[];
  readonly top_logprobs: number;
  readonly top_p: number;
  readonly user: string | null;
};

/** The error codes of a failed response that clients know. */
export type FailureCode = "server_error" | "rate_limit_exceeded" | "server_is_overloaded" | "context_length_exceeded";

/** How far a response is, with everything that is known only there. */
export type Outcome =
  | { readonly status: "in_progress" }
  | {
      readonly status: "completed";
      readonly output: readonly OutputItem[];
      readonly usage: Finished["usage"];
      readonly completedAtSeconds: number;
    }
  | {
      readonly status: "incomplete";
      readonly output: readonly OutputItem[];
      readonly usage: Finished["usage"];
      readonly reason: "max_output_tokens" | "content_filter";
    }
  | {
      readonly status: "failed";
      readonly output: readonly OutputItem[];
      readonly error: { readonly code: FailureCode; readonly message: string };
    };

/** How a response ends. */
export type FinalOutcome = Exclude<Outcome, { status: "in_progress" }>;

/** Returns the outcome of an answer that the engine finished. */
export function finishedOutcome(finished: Finished, output: readonly OutputItem[], nowSeconds: number): FinalOutcome {
  const { reason, usage } = finished;
  switch (reason) {
    case FinishReason.MAX_OUTPUT_TOKENS:
    case FinishReason.CONTEXT_WINDOW:
      return { status: "incomplete", output, usage, reason: "max_output_tokens" };
    case FinishReason.CONTENT_FILTER:
      return { status: "incomplete", output, usage, reason: "content_filter" };
    case FinishReason.UNSPECIFIED:
    case FinishReason.STOP:
    case FinishReason.STOP_SEQUENCE:
    case FinishReason.TOOL_CALLS:
      return { status: "completed", output, usage, completedAtSeconds: nowSeconds };
    default:
      // A reason of a newer engine: it did finish, so the turn ends normally.
      reason satisfies never;
      return { status: "completed", output, usage, completedAtSeconds: nowSeconds };
  }
}

/**
 * Makes the response object ("Response object" in formats/README.md), which every lifecycle event and the folded reply
 * carry alike.
 */
export function responseObject(head: Head, echo: Echo, outcome: Outcome) {
  const output = outcome.status === "in_progress" ? [] : outcome.output;
  return {
    id: `resp_${head.replyId}`,
    object: "response" as const,
    created_at: head.createdSeconds,
    status: outcome.status,
    background: false,
    completed_at: outcome.status === "completed" ? outcome.completedAtSeconds : null,
    error: outcome.status === "failed" ? outcome.error : null,
    incomplete_details: outcome.status === "incomplete" ? { reason: outcome.reason } : null,
    instructions: echo.instructions,
    max_output_tokens: echo.max_output_tokens,
    max_tool_calls: null,
    metadata: echo.metadata,
    model: echo.model,
    output,
    // Clients build it up themselves while the answer is coming in.
    ...(outcome.status !== "in_progress" && { output_text: textOf(output) }),
    parallel_tool_calls: echo.parallel_tool_calls,
    previous_response_id: null,
    prompt_cache_key: echo.prompt_cache_key,
    prompt_cache_retention: echo.prompt_cache_retention,
    reasoning: echo.reasoning,
    safety_identifier: echo.safety_identifier,
    service_tier: "default" as const,
    store: false,
    temperature: echo.temperature,
    text: echo.text,
    tool_choice: echo.tool_choice,
    tools: echo.tools,
    top_logprobs: echo.top_logprobs,
    top_p: echo.top_p,
    truncation: "disabled" as const,
    usage: outcome.status === "completed" || outcome.status === "incomplete" ? usageObject(outcome.usage) : null,
    user: echo.user,
  };
}

function textOf(output: readonly OutputItem[]): string {
  return output.flatMap((item) => (item.type === "message" ? item.content.map((part) => part.text) : [])).join("");
}

/**
 * Writes the usage. Clients loop when a finished response has no usage, so an engine that measured nothing gives zeros.
 */
function usageObject(usage: Finished["usage"]) {
  const inputTokens = usage?.inputTokens ?? 0;
  const outputTokens = usage?.outputTokens ?? 0;
  return {
    input_tokens: inputTokens,
    input_tokens_details: {
      cached_tokens: usage?.cachedInputTokens ?? 0,
      cache_write_tokens: usage?.cacheWriteTokens ?? 0,
    },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: usage?.reasoningTokens ?? 0 },
    total_tokens: inputTokens + outputTokens,
  };
}

/** Makes the body of a non-streaming reply, which has HTTP 200 for an incomplete answer, too. */
export function foldedReply(head: Head, echo: Echo, view: ReplyView, completion: Completion): object {
  const output: OutputItem[] = [];
  for (const block of completion.blocks) {
    const item = finishedItem(head, output.length, block, view);
    if (item) output.push(item);
  }
  return responseObject(head, echo, finishedOutcome(completion.finished, output, head.nowSeconds()));
}
