import type { Usage } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { findModel } from "../../catalog.ts";
import type { RequestOutcome } from "../../outcome.ts";
import type { Stats } from "../../stats/stats.ts";
import { PRIORITY_CLASS } from "../request-context.ts";
import type { RequestFacts } from "./request-facts.ts";

export type RequestEnd = {
  /** The status that was sent, 0 for none. */
  readonly code: number;
  readonly outcome: RequestOutcome;
  readonly totalMs: number;
};

/** Counts a request that is over. */
export function recordRequest(stats: Stats, facts: RequestFacts, { code, outcome, totalMs }: RequestEnd): void {
  const { route, format, operation } = facts.labels;
  stats.httpRequests.inc({ route, format, code, outcome });
  if (facts.model === undefined) return;
  // Whatever stands there, a caller cannot make new series.
  const model = findModel(facts.model) ? facts.model : "other";
  const { usage, firstDeltaMs, finishedMs } = facts;
  stats.requestDuration.observe({ operation, model, outcome }, totalMs / 1000);
  if (facts.queueMs !== undefined && facts.principal)
    stats.queueWait.observe({ model, class: PRIORITY_CLASS[facts.principal.priority] }, facts.queueMs / 1000);
  if (firstDeltaMs !== undefined)
    stats.timeToFirstToken.observe({ model, cache: cacheUse(usage) }, firstDeltaMs / 1000);
  if (usage) {
    stats.tokens.observe({ model, token_type: "input" }, usage.inputTokens);
    stats.tokens.observe({ model, token_type: "cached" }, usage.cachedInputTokens);
    stats.tokens.observe({ model, token_type: "output" }, usage.outputTokens);
    stats.tokens.observe({ model, token_type: "reasoning" }, usage.reasoningTokens);
    if (firstDeltaMs !== undefined && finishedMs !== undefined && usage.outputTokens > 1)
      stats.timePerOutputToken.observe({ model }, (finishedMs - firstDeltaMs) / 1000 / (usage.outputTokens - 1));
  }
  const live = stats.live.model(model);
  live.requests += 1;
  if (outcome === "server_error") live.errors += 1;
}

/** How much of the prompt was read from the cache. A request that did not end well does not know. */
export function cacheUse(usage: Usage | undefined): "hit" | "partial" | "miss" | "unknown" {
  if (!usage || usage.inputTokens === 0) return "unknown";
  if (usage.cachedInputTokens === 0) return "miss";
  return usage.cachedInputTokens * 2 >= usage.inputTokens ? "hit" : "partial";
}
