import type { Usage } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Stats } from "../../stats/stats.ts";
import { PRIORITY_CLASS } from "../request-context.ts";
import type { ClosedRequest } from "./request-record.ts";

/** Counts a request that is over. */
export function countRequest(stats: Stats, request: ClosedRequest): void {
  const { code, outcome, totalMs } = request;
  const { route, format, operation } = request.labels;
  stats.httpRequests.inc({ route, format, code, outcome });
  if (request.model === undefined) return;
  // It is the id of a model of the catalog, whatever the caller called it, so that no caller can make new series.
  const { model } = request;
  const { usage, firstDeltaMs, finishedMs } = request;
  stats.requestDuration.observe({ operation, model, outcome }, totalMs / 1000);
  if (request.queueMs !== undefined && request.principal)
    stats.queueWait.observe({ model, class: PRIORITY_CLASS[request.principal.priority] }, request.queueMs / 1000);
  if (firstDeltaMs !== undefined)
    stats.timeToFirstToken.observe({ model, cache: cacheUse(usage) }, firstDeltaMs / 1000);
  if (request.cache) {
    const { reason, lostTokens } = request.cache;
    stats.cacheReasons.inc({ model, reason });
    stats.cacheLostTokens.inc({ model, reason }, lostTokens);
  }
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
  if (request.cache) {
    const { reason, lostTokens } = request.cache;
    const totals = live.cacheReasons.get(reason) ?? { requests: 0, lostTokens: 0 };
    totals.requests += 1;
    totals.lostTokens += lostTokens;
    live.cacheReasons.set(reason, totals);
  }
  if (usage && request.cache) {
    live.promptTokens += usage.inputTokens;
    live.expectedTokens += request.cache.expectedTokens;
    live.cachedTokens += request.cache.cachedTokens;
  }
  if (outcome === "server_error") live.errors += 1;
}

/** Returns how much of the prompt was read from the cache; `unknown` for a request that did not end well. */
export function cacheUse(usage: Usage | undefined): "hit" | "partial" | "miss" | "unknown" {
  if (!usage || usage.inputTokens === 0) return "unknown";
  if (usage.cachedInputTokens === 0) return "miss";
  return usage.cachedInputTokens * 2 >= usage.inputTokens ? "hit" : "partial";
}
