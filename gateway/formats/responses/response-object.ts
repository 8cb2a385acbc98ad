import { type Finished, FinishReason, type Sampling } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Completion } from "../completion.ts";
import type { CacheMiss, Head } from "../format.ts";
import { compactionItem, type KeptMessage } from "./compaction.ts";
import { finishedItem, type ReplyView } from "./output-item.ts";
import type { CacheDiagnostics, Echo, Failure, OutputItem } from "./reply-schema.ts";

/** Returns the repeated fields, with the sampling parameters that the engine reported in place of the defaults. */
export function withSampling(echo: Echo, sampling: Sampling | undefined): Echo {
  return {
    ...echo,
    frequency_penalty: sampling?.frequencyPenalty ?? echo.frequency_penalty,
    presence_penalty: sampling?.presencePenalty ?? echo.presence_penalty,
    temperature: sampling?.temperature ?? echo.temperature,
    top_p: sampling?.topP ?? echo.top_p,
  };
}

type Counted = {
  /** The items so far; the last one may be truncated. */
  readonly output: readonly OutputItem[];
  /** Undefined if the engine did not count the tokens. */
  readonly usage: Finished["usage"];
};

export type FinalOutcome =
  | (Counted & { readonly status: "completed"; readonly completedAtSeconds: number })
  | (Counted & { readonly status: "incomplete"; readonly reason: "max_output_tokens" | "content_filter" })
  | { readonly status: "failed"; readonly output: readonly OutputItem[]; readonly error: Failure };

const LIMITS: { readonly [reason in FinishReason]?: "max_output_tokens" | "content_filter" } = {
  [FinishReason.MAX_OUTPUT_TOKENS]: "max_output_tokens",
  [FinishReason.CONTEXT_WINDOW]: "max_output_tokens",
  [FinishReason.CONTENT_FILTER]: "content_filter",
};

/** Returns the outcome of an answer that the engine finished. `nowSeconds` is the time since the epoch. */
export function finishedOutcome(finished: Finished, output: readonly OutputItem[], nowSeconds: number): FinalOutcome {
  const { usage } = finished;
  const reason = LIMITS[finished.reason];
  if (reason) return { status: "incomplete", output, usage, reason };
  return { status: "completed", output, usage, completedAtSeconds: nowSeconds };
}

/** Makes the response object, the same in every lifecycle event and the folded reply. */
export function responseObject(head: Head, echo: Echo, outcome: FinalOutcome | { readonly status: "in_progress" }) {
  const output = outcome.status === "in_progress" ? [] : outcome.output;
  return {
    id: `resp_${head.replyId}`,
    object: "response" as const,
    created_at: head.createdSeconds,
    status: outcome.status,
    background: false,
    completed_at: outcome.status === "completed" ? outcome.completedAtSeconds : null,
    error: outcome.status === "failed" ? outcome.error : null,
    frequency_penalty: echo.frequency_penalty,
    incomplete_details: outcome.status === "incomplete" ? { reason: outcome.reason } : null,
    instructions: echo.instructions,
    max_output_tokens: echo.max_output_tokens,
    max_tool_calls: echo.max_tool_calls,
    metadata: echo.metadata,
    model: echo.model,
    output,
    // While the answer is arriving, clients assemble it themselves.
    ...(outcome.status !== "in_progress" && { output_text: textOf(output) }),
    parallel_tool_calls: echo.parallel_tool_calls,
    presence_penalty: echo.presence_penalty,
    previous_response_id: echo.previous_response_id,
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

/** Reasons that are the service's own are `unavailable`: the caller's prompt had not changed. */
export function diagnosticsOf(head: Head, { diagnosed }: Pick<ReplyView, "diagnosed">) {
  if (!diagnosed) return {};
  return { prompt_cache_diagnostics: cacheDiagnostics(head.cacheMiss()) };
}

function cacheDiagnostics(miss: CacheMiss | undefined): CacheDiagnostics {
  if (miss?.reason === "hit") return { type: "cache_hit" };
  if (miss?.reason === "new") return { type: "comparison_response_not_found" };
  if (!miss?.changedPart) return { type: "unavailable" };
  const change = miss.changedPart === "tools" ? "tools_changed" : "input_changed";
  const reason = miss.reason === "rewritten" ? "context_compacted" : change;
  return { type: "cache_miss", reason, cache_missed_tokens: miss.lostTokens };
}

function textOf(output: readonly OutputItem[]): string {
  return output.flatMap((item) => (item.type === "message" ? item.content.map((part) => part.text) : [])).join("");
}

/** Clients loop when a finished response has no usage, so an engine without measurements gives zeros. */
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

export function foldedReply(head: Head, asked: Echo, view: ReplyView, completion: Completion): object {
  const echo = withSampling(asked, completion.sampling);
  if (view.compacts) {
    const completedAtSeconds = head.nowSeconds();
    const { usage } = completion.finished;
    const item = compactionItem(head, completion);
    return {
      ...responseObject(head, echo, { status: "completed", output: [item], usage, completedAtSeconds }),
      ...diagnosticsOf(head, view),
    };
  }
  const output: OutputItem[] = [];
  for (const block of completion.blocks) {
    const item = finishedItem(head, output.length, block, view);
    if (item) output.push(item);
  }
  return {
    ...responseObject(head, echo, finishedOutcome(completion.finished, output, head.nowSeconds())),
    ...diagnosticsOf(head, view),
  };
}

export function compactedReply(head: Head, kept: readonly KeptMessage[], completion: Completion): object {
  const messages = kept.map(({ id, content }, at) => ({
    id: id ?? `msg_${head.replyId}_${at}`,
    type: "message" as const,
    role: "user" as const,
    status: "completed" as const,
    content,
  }));
  return {
    id: `resp_${head.replyId}`,
    object: "response.compaction" as const,
    created_at: head.createdSeconds,
    output: [...messages, compactionItem(head, completion)],
    usage: usageObject(completion.finished.usage),
  };
}
