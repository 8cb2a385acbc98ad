import type { Usage } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Stats } from "../../stats/stats.ts";
import { PRIORITY_CLASS } from "../request-context.ts";
import type { ClosedRequest } from "./request-record.ts";

export function countRequest(stats: Stats, request: ClosedRequest): void {
  const { code, outcome, totalMs } = request;
  const { route, format, operation } = request.labels;
  stats.httpRequests.of(route, format, code, outcome).inc();
  const counted = request.model === undefined ? stats.live.withoutModel : stats.live.model(request.model);
  counted.requests += 1;
  if (outcome === "server_error") counted.errors += 1;
  if (request.model === undefined) return;
  // A catalog id, not the caller's text, so that callers cannot create series.
  const { model } = request;
  const { usage, firstDeltaMs, finishedMs } = request;
  stats.requestDuration.of(operation, model, outcome).observe(totalMs / 1000);
  if (request.queueMs !== undefined && request.principal)
    stats.queueWait.of(model, PRIORITY_CLASS[request.principal.priority]).observe(request.queueMs / 1000);
  if (firstDeltaMs !== undefined) stats.timeToFirstToken.of(model, cacheUse(usage)).observe(firstDeltaMs / 1000);
  if (request.cache) {
    const { reason, lostTokens } = request.cache;
    stats.cacheReasons.of(model, reason).inc();
    stats.cacheLostTokens.of(model, reason).inc(lostTokens);
  }
  if (usage) {
    stats.tokens.of(model, "input").observe(usage.inputTokens);
    stats.tokens.of(model, "cached").observe(usage.cachedInputTokens);
    stats.tokens.of(model, "output").observe(usage.outputTokens);
    stats.tokens.of(model, "reasoning").observe(usage.reasoningTokens);
    if (firstDeltaMs !== undefined && finishedMs !== undefined && usage.outputTokens > 1)
      stats.timePerOutputToken.of(model).observe((finishedMs - firstDeltaMs) / 1000 / (usage.outputTokens - 1));
  }
  const live = stats.live.model(model);
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
}

/** Returns whether the prompt was read from the cache; `unknown` for a request that did not succeed. */
export function cacheUse(usage: Usage | undefined): "hit" | "partial" | "miss" | "unknown" {
  if (!usage || usage.inputTokens === 0) return "unknown";
  if (usage.cachedInputTokens === 0) return "miss";
  return usage.cachedInputTokens * 2 >= usage.inputTokens ? "hit" : "partial";
}
