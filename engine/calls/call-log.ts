import type { Logger } from "pino";
import { durationMs } from "../../deploy/runtime/time/clock.ts";
import type { WorkEnd } from "../caller-work/caller-work.ts";
import type { EngineMetrics } from "../metrics/engine-metrics.ts";
import type { Verdict } from "../prefixes/held-prefixes.ts";
import type { GenerationOutcome } from "./generation-call.ts";

export type GenerationFacts = GenerationOutcome & {
  /** As the caller sent it: logs and traces show `shownId` of it. */
  readonly requestId: string;
  /** The id of a served model, or `unknown`. */
  readonly model: string;
};

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
  // Tokens of earlier calls were counted by the nodes that made them.
  const outputTokens = Math.max(0, usage.outputTokens - continuedTokens);
  if (timings?.decode && outputTokens > 0)
    metrics.timePerOutputToken.observe({ model }, durationMs(timings.decode) / 1000 / outputTokens);
  metrics.tokens.inc({ model, type: "input" }, usage.inputTokens);
  metrics.tokens.inc({ model, type: "cached" }, usage.cachedInputTokens);
  metrics.tokens.inc({ model, type: "output" }, outputTokens);
  metrics.tokens.inc({ model, type: "reasoning" }, Math.min(usage.reasoningTokens, outputTokens));
}

/** A part of a conversation by its path, such as `messages[3]`. */
const PART = /^[a-z_]{1,20}(?:\[\d{1,9}\])?$/;

/** Logs a finished generation: counts and times only, no caller or model text. */
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
    // Only the error name: the text of an unexpected error may contain caller input.
    cause: failure?.cause instanceof Error ? failure.cause.name : undefined,
  };
  if (failure?.reason === "ENGINE_ERROR" || failure?.reason === "PROTOCOL_VIOLATION") log.error(line, "generate");
  else log.info(line, "generate");
}

/** Returns the rejected part and the template's own error; other facts may contain caller input. */
function refusedPart({ field = "", template_says: says, about }: Readonly<Record<string, string>>): object {
  return { refused: PART.test(field) ? field : undefined, template_says: says, about };
}

/** Returns a request id if it is well-formed, else `invalid`: any client may call the node. */
export function shownId(id: string): string {
  return /^[A-Za-z0-9_-]{1,64}$/.test(id) ? id : "invalid";
}

function rounded(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms);
}

/** Returns a function that counts each finished worker job, and logs faults of this program, once per code location. */
export function workRecorder(metrics: EngineMetrics, log: Logger): (end: WorkEnd) => void {
  const logged = new Set<string>();
  return ({ kind, outcome, fault }) => {
    metrics.callerWork.inc({ kind, outcome });
    if (!fault) return;
    const place = `${fault.error} ${fault.at[0]}`;
    if (logged.has(place)) return;
    logged.add(place);
    log.error({ kind, ...fault }, "caller work failed");
  };
}

/** Records where the engine's findings contradict the announced prefixes, and logs when these end and begin again. */
export function verdictRecorder(metrics: EngineMetrics, log: Logger): (verdict: Verdict) => void {
  return ({ finding, contradiction, isAnnounced, hasTurned }) => {
    if (contradiction) metrics.prefixContradictions.inc({ found: contradiction });
    if (!hasTurned) return;
    const { before, after, found } = finding;
    const facts = { announced_tokens: contradiction === "more" ? after : before, found_tokens: found };
    if (isAnnounced) log.info(facts, "cached prefixes are announced again: they agree with what the engine finds");
    else log.warn(facts, "cached prefixes are not announced: the engine repeatedly finds others than its events say");
  };
}
