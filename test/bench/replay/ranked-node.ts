import { pickRank } from "../../../engine/backends/openai-compatible/kv-events/rank-pick.ts";
import {
  type CacheTiers,
  cachedIn,
  type Job,
  type NodeReport,
  type NodeUse,
  ReplayNode,
  type ReplayNodeParts,
} from "./replay-node.ts";

/** A node beside an engine with data-parallel ranks: each rank has a cache and a row of its own, and the node picks. */
export class RankedNode {
  readonly #ranks: readonly ReplayNode[];
  readonly #tiers: CacheTiers;
  readonly #first: number;

  /** The ranks have the caches from number `cache` on. */
  constructor(parts: ReplayNodeParts, ranks: number) {
    this.#tiers = parts.tiers;
    this.#first = parts.cache;
    this.#ranks = Array.from({ length: ranks }, (_, rank) => new ReplayNode({ ...parts, cache: parts.cache + rank }));
  }

  get report(): NodeReport {
    const reports = this.#ranks.map(({ report }) => report);
    const sum = (value: (report: NodeReport) => number) => reports.reduce((total, report) => total + value(report), 0);
    const retentions = reports.flatMap(({ retentionMs }) => retentionMs ?? []);
    return {
      running: sum(({ running }) => running),
      waiting: sum(({ waiting }) => waiting),
      queuedUncachedTokens: sum(({ queuedUncachedTokens }) => queuedUncachedTokens),
      kvUse: sum(({ kvUse }) => kvUse) / reports.length,
      retentionMs: retentions.length > 0 ? Math.min(...retentions) : undefined,
    };
  }

  get uses(): readonly NodeUse[] {
    return this.#ranks.map(({ use }) => use);
  }

  submit(job: Job): void {
    const states = this.#ranks.map(({ report }, rank) => ({
      cached: {
        ...cachedIn(this.#tiers, this.#first + rank, job.prompt.last),
        heldTokens: this.#tiers.caches.tokens(this.#first + rank),
      },
      unreadTokens: report.queuedUncachedTokens,
      requests: report.running + report.waiting,
    }));
    this.#ranks[pickRank(states, job.prompt.tokens)]?.submit(job);
  }
}
