import type { Logger } from "pino";
import { durationMs } from "../../deploy/runtime/time/proto-duration.ts";
import type { EngineMetrics } from "../metrics/engine-metrics.ts";
import type { GenerationOutcome } from "./generation-call.ts";

/** A generation that has ended, and whose it was. */
export type GenerationFacts = GenerationOutcome & {
  /** The id of the request as its caller sent it, and so not fit to be shown before `shownId`. */
  readonly requestId: string;
  /** The model's id if the node serves it, else `unknown`. */
  readonly model: string;
};

/** Counts and measures a generation that has ended. */
export function measureGeneration(metrics: EngineMetrics, facts: GenerationFacts): void {
  const { model, failure, finished, firstDeltaMs, continuedTokens, checked, cancelMs } = facts;
  metrics.generations.inc({ model, reason: failure?.reason ?? "ok" });
  if (firstDeltaMs !== undefined) metrics.timeToFirstDelta.observe({ model }, firstDeltaMs / 1000);
  for (const { part } of checked.mismatches) metrics.schemaMismatches.inc({ model, part });
  if (checked.unchecked > 0) metrics.schemaUnchecked.inc({ model }, checked.unchecked);
  if (cancelMs !== undefined) metrics.cancelLatency.observe(cancelMs / 1000);
  const { usage, timings } = finished ?? {};
  if (timings?.queue) metrics.queueWait.observe({ model }, durationMs(timings.queue) / 1000);
  if (!usage) return;
  // The node counts what it has made itself.
  const outputTokens = Math.max(0, usage.outputTokens - continuedTokens);
  if (timings?.decode && outputTokens > 0)
    metrics.timePerOutputToken.observe({ model }, durationMs(timings.decode) / 1000 / outputTokens);
  metrics.tokens.inc({ model, type: "input" }, usage.inputTokens);
  metrics.tokens.inc({ model, type: "cached" }, usage.cachedInputTokens);
  metrics.tokens.inc({ model, type: "output" }, outputTokens);
  metrics.tokens.inc({ model, type: "reasoning" }, Math.min(usage.reasoningTokens, outputTokens));
}

/** A part of a conversation by its place, such as `messages[3]`. */
const PART = /^[a-z_]{1,20}(?:\[\d{1,9}\])?$/;

/**
 * Writes the log line of a generation that has ended: counts and times only, nothing that a caller or the model wrote.
 */
export function logGeneration(log: Logger, facts: GenerationFacts): void {
  const { failure, finished } = facts;
  const { usage, timings } = finished ?? {};
  const line = {
    request_id: shownId(facts.requestId),
    model: facts.model,
    outcome: failure?.reason ?? "ok",
    ...refusedPart(failure?.facts ?? {}),
    input_tokens: usage?.inputTokens,
    cached_tokens: usage?.cachedInputTokens,
    output_tokens: usage?.outputTokens,
    continued_tokens: facts.continuedTokens || undefined,
    reasoning_tokens: usage?.reasoningTokens,
    schema_mismatches: facts.checked.mismatches.length || undefined,
    schema_unchecked: facts.checked.unchecked || undefined,
    queue_ms: timings?.queue && Math.round(durationMs(timings.queue)),
    prefill_ms: timings?.prefill && Math.round(durationMs(timings.prefill)),
    decode_ms: timings?.decode && Math.round(durationMs(timings.decode)),
    ttft_ms: rounded(facts.firstDeltaMs),
    cancel_ms: rounded(facts.cancelMs),
    total_ms: rounded(facts.totalMs),
    // Only the kind of an unexpected error: its text may hold what the caller sent.
    cause: failure?.cause instanceof Error ? failure.cause.name : undefined,
  };
  if (failure?.reason === "ENGINE_ERROR" || failure?.reason === "PROTOCOL_VIOLATION") log.error(line, "generate");
  else log.info(line, "generate");
}

/**
 * Returns what of a conversation its template did not take, and the template's own words for why: operators learn which
 * template to look at. Of a failure's other facts, and of its message, nothing is known to hold no caller's words.
 */
function refusedPart({ field = "", template_says: says, about }: Readonly<Record<string, string>>): object {
  return { refused: PART.test(field) ? field : undefined, template_says: says, about };
}

/**
 * Returns a request id as logs and traces may show it: the id itself when it is well-formed (1 to 64 of `A-Z a-z 0-9 _
 * -`), else `invalid`. Gateways mint these ids, yet anyone may call.
 */
export function shownId(id: string): string {
  return /^[A-Za-z0-9_-]{1,64}$/.test(id) ? id : "invalid";
}

function rounded(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms);
}
