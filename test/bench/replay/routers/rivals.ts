import { PieceCaches } from "../piece-cache.ts";
import type { PieceStore } from "../piece-store.ts";
import { PREFILL_TOKENS_PER_SECOND } from "../replay-node.ts";
import { type Fleet, type Follower, leastOf, type Router, ruleRouter } from "./router.ts";

/** The weights of llm-d's default profile for precise prefix caching: prefix, queue, KV cache use. */
const LLMD_WEIGHTS = { prefix: 3, queue: 2, kv: 2 };

/** The costs of a request on a node and of a token to prefill, from a former version of the router. */
const REQUEST_COST_SECONDS = 0.1;
const UNCACHED_WEIGHT = 2;

/** The default settings of the cache-aware policy of SGLang and SMG. */
const TREE = { cacheThreshold: 0.3, balanceAbsolute: 64, balanceRelative: 1.5, maxTokens: 4_200_000 };

/** Picks the node with the least work; all nodes share one cache. */
export function oracle({ nodes }: Fleet): Router {
  return ruleRouter(() => leastOf(nodes.map(({ report }) => report.queuedUncachedTokens + report.running)));
}

/** Greedy, with the current state of all caches and nodes. */
export function omniscient({ nodes, caches }: Fleet): Router {
  return ruleRouter(({ last, tokens }) => {
    const cached = caches.cachedEverywhere(last);
    return leastOf(
      nodes.map(({ report }, node) => {
        const work = report.queuedUncachedTokens + UNCACHED_WEIGHT * (tokens - (cached[node] ?? 0));
        return work / PREFILL_TOKENS_PER_SECOND + REQUEST_COST_SECONDS * (report.running + report.waiting);
      }),
    );
  });
}

/** Adds llm-d's scores (cached share, queue, KV use) with exact cache state and the newest reports. */
export function llmd({ nodes, caches }: Fleet, random: () => number): Router {
  return ruleRouter(({ last, tokens }, reports) => {
    const cached = caches.cachedEverywhere(last);
    const waiting = nodes.map((_, node) => reports[node]?.waiting ?? 0);
    const [least, most] = [Math.min(...waiting), Math.max(...waiting)];
    return leastOf(
      nodes.map((_, node) => {
        const queue = most === least ? 1 : (most - (waiting[node] ?? 0)) / (most - least);
        const kv = 1 - (reports[node]?.kvUse ?? 0);
        const { prefix, queue: queueWeight, kv: kvWeight } = LLMD_WEIGHTS;
        // Ties are broken randomly.
        return random() * 1e-9 - (prefix * ((cached[node] ?? 0) / tokens) + queueWeight * queue + kvWeight * kv);
      }),
    );
  });
}

/** Remembers its own routing in a tree, as the router of SGLang and SMG does, without evictions. */
export function prefixTree({ nodes }: Fleet, store: PieceStore, nowMs: () => number): Router {
  const tree = new PieceCaches(store, nodes.length, TREE.maxTokens, nowMs);
  const active = nodes.map(() => 0);
  const pick = (last: number, tokens: number): number => {
    const [least, most] = [Math.min(...active), Math.max(...active)];
    if (most - least > TREE.balanceAbsolute && most > TREE.balanceRelative * least) return active.indexOf(least);
    const matched = tree.cachedEverywhere(last);
    const longest = Math.max(...matched);
    if (longest / tokens > TREE.cacheThreshold)
      return leastOf(
        matched.map((match, node) => (match === longest ? (active[node] ?? 0) : Number.POSITIVE_INFINITY)),
      );
    return leastOf(nodes.map((_, node) => tree.tokens(node)));
  };
  return {
    send({ last, tokens }, dispatch) {
      const node = pick(last, tokens);
      active[node] = (active[node] ?? 0) + 1;
      tree.use(node, last);
      const follower: Follower = {
        started: () => {},
        firstToken: () => {},
        finished: () => {
          active[node] = (active[node] ?? 1) - 1;
        },
      };
      dispatch(node, follower);
    },
  };
}
