import { type NodeReport, PREFILL_TOKENS_PER_SECOND } from "./replay-node.ts";
import { type Fleet, type Follower, leastOf, type Router } from "./router.ts";
import type { Prompt } from "./traffic.ts";

/* The rules of other projects, by their public code and documents, with their defaults. */

/** What a gateway has sent to each node that is not done yet. */
class Sent {
  readonly requests: number[];
  readonly promptTokens: number[];
  readonly #unread: Set<{ readonly node: number; tokens: number }> = new Set();
  readonly #onChange: () => void;

  constructor(nodes: number, onChange: () => void = () => {}) {
    this.requests = Array.from({ length: nodes }, () => 0);
    this.promptTokens = Array.from({ length: nodes }, () => 0);
    this.#onChange = onChange;
  }

  /** The uncached prompt tokens without a first token, by node. */
  get unread(): readonly number[] {
    const sums = this.requests.map(() => 0);
    for (const { node, tokens } of this.#unread) sums[node] = (sums[node] ?? 0) + tokens;
    return sums;
  }

  /** Counts a prompt on a node until its follower says that it is done. */
  follow(
    node: number,
    prompt: Prompt,
    uncachedTokens: number,
    follows: "progress" | "first token" = "first token",
  ): Follower {
    const unread = { node, tokens: uncachedTokens };
    this.#unread.add(unread);
    this.#add(node, 1, prompt.tokens);
    return {
      started: () => {},
      progress: (prefilledTokens) => {
        if (follows === "progress") unread.tokens = Math.min(unread.tokens, prompt.tokens - prefilledTokens);
      },
      firstToken: () => {
        this.#unread.delete(unread);
        this.#onChange();
      },
      finished: () => {
        this.#add(node, -1, -prompt.tokens);
        this.#onChange();
      },
    };
  }

  #add(node: number, requests: number, tokens: number): void {
    this.requests[node] = (this.requests[node] ?? 0) + requests;
    this.promptTokens[node] = (this.promptTokens[node] ?? 0) + tokens;
  }
}

/** Returns the cached tokens of a prompt on each node; of several ranks the most. */
function cachedOn({ nodes, caches, ranks }: Fleet, { last }: Prompt): readonly number[] {
  const ofRanks = caches.cachedEverywhere(last);
  return nodes.map((_, node) => Math.max(...ofRanks.slice(node * ranks, (node + 1) * ranks)));
}

const LLMD_WEIGHTS = { prefix: 3, queue: 2, kv: 2 };

/** Adds the scores of llm-d's chart (cached share, queue, KV use) by exact cache state and the newest reports. */
export function llmd(fleet: Fleet, random: () => number): Router {
  const reports: NodeReport[] = [];
  return {
    reported(node, report) {
      reports[node] = report;
    },
    send(prompt, dispatch) {
      const waiting = fleet.nodes.map((_, node) => reports[node]?.waiting ?? 0);
      const [least, most] = [Math.min(...waiting), Math.max(...waiting)];
      const costs = cachedOn(fleet, prompt).map((cached, node) => {
        const queue = most === least ? 1 : (most - (waiting[node] ?? 0)) / (most - least);
        const kv = 1 - (reports[node]?.kvUse ?? 0);
        const { prefix, queue: queueWeight, kv: kvWeight } = LLMD_WEIGHTS;
        // Ties are broken randomly.
        return random() * 1e-9 - (prefix * (cached / prompt.tokens) + queueWeight * queue + kvWeight * kv);
      });
      dispatch(leastOf(costs));
    },
  };
}

/** The share of a prompt that makes an endpoint sticky, and the delay of its first token that ends this, in seconds. */
const LLMD_STICKY = { share: 0.8, seconds: 18 };

/**
 * llm-d's rule for agents: of the endpoints with 80 % of the prompt the one with the fewest uncached tokens in flight, of
 * all where there are none or these are 18 s slower. The speed is that of the nodes, as its guide has it measured.
 */
export function llmdAgents(fleet: Fleet, random: () => number): Router {
  const sent = new Sent(fleet.nodes.length);
  return {
    send(prompt, dispatch) {
      const cached = cachedOn(fleet, prompt);
      const { unread } = sent;
      const isSticky = cached.map((tokens) => tokens >= LLMD_STICKY.share * prompt.tokens);
      const fewest = (sticky: boolean) => Math.min(...unread.filter((_, node) => isSticky[node] === sticky));
      const slowerSeconds = (fewest(true) - fewest(false)) / PREFILL_TOKENS_PER_SECOND;
      const onlySticky = isSticky.includes(true) && slowerSeconds <= LLMD_STICKY.seconds;
      const costs = unread.map((tokens, node) =>
        onlySticky && !isSticky[node] ? Number.POSITIVE_INFINITY : tokens + random() * 1e-9,
      );
      const node = leastOf(costs);
      dispatch(node, sent.follow(node, prompt, prompt.tokens - (cached[node] ?? 0)));
    },
  };
}

/** The difference and the ratio of the most requests on a worker to the fewest from which SMG looks at load only. */
const SMG_IMBALANCE = { requests: 64, ratio: 1.5 };

/** SMG's `cache_aware` with KV events: the most overlap, of equals the fewest requests, then the smaller cache. */
export function smg(fleet: Fleet): Router {
  const sent = new Sent(fleet.nodes.length);
  const processed = fleet.nodes.map(() => 0);
  return {
    send(prompt, dispatch) {
      const { requests } = sent;
      const cached = cachedOn(fleet, prompt);
      const [least, most] = [Math.min(...requests), Math.max(...requests)];
      const isImbalanced = most - least > SMG_IMBALANCE.requests && most > SMG_IMBALANCE.ratio * least;
      const byLoad = isImbalanced || cached.every((tokens) => tokens === 0);
      const keys = cached.map((tokens, node) =>
        byLoad
          ? [requests[node] ?? 0, processed[node] ?? 0]
          : [-tokens, requests[node] ?? 0, fleet.caches.tokens(node * fleet.ranks)],
      );
      const node = leastBy(keys);
      processed[node] = (processed[node] ?? 0) + 1;
      dispatch(node, sent.follow(node, prompt, prompt.tokens - (cached[node] ?? 0)));
    },
  };
}

/** Returns the index of the first list that is the smallest by its first number, then by the next ones. */
function leastBy(lists: readonly (readonly number[])[]): number {
  const isLess = (one: readonly number[], other: readonly number[]) => {
    const at = one.findIndex((number, index) => number !== other[index]);
    return at >= 0 && (one[at] ?? 0) < (other[at] ?? 0);
  };
  return lists.reduce((best, list, index) => (isLess(list, lists[best] ?? []) ? index : best), 0);
}

/** The tokens under prefill on every worker above which Dynamo lets requests wait: 16 batches of 8,192. */
const DYNAMO_BUSY_TOKENS = 16 * 8_192;

/** Dynamo's cost: the tokens to prefill on a worker with this prompt, and the blocks of its running requests. */
export function dynamo(fleet: Fleet, random: () => number): Router {
  const waiting: (() => boolean)[] = [];
  const sent = new Sent(fleet.nodes.length, () => {
    while (waiting[0]?.()) waiting.shift();
  });
  return {
    send(prompt, dispatch) {
      const begin = () => {
        const { unread, promptTokens } = sent;
        if (unread.every((tokens) => tokens > DYNAMO_BUSY_TOKENS)) return false;
        const cached = cachedOn(fleet, prompt);
        const costs = cached.map(
          (tokens, node) => (unread[node] ?? 0) + prompt.tokens - tokens + (promptTokens[node] ?? 0) + random() * 1e-6,
        );
        const node = leastOf(costs);
        dispatch(node, sent.follow(node, prompt, prompt.tokens - (cached[node] ?? 0)));
        return true;
      };
      if (waiting.length > 0 || !begin()) waiting.push(begin);
    },
  };
}

/** The weight of tokens that another node holds, where all caches are full; of each request, in seconds of prefill. */
const GATE_WEIGHTS = { copied: 60, requestSeconds: 0.5 };
/** The prefill above which a prompt waits, and that of a node to which it does not go meanwhile, in seconds. */
const GATE_SECONDS = 2;
const FULL_SHARE = 0.95;

/**
 * No project's rule but a yardstick: exact cache state, the price of a copy, and a gate. A prompt with much to prefill
 * waits until the node of its choice has little left.
 */
export function gate(fleet: Fleet): Router {
  const { nodes, caches, ranks } = fleet;
  const longTokens = GATE_SECONDS * PREFILL_TOKENS_PER_SECOND;
  const requestTokens = GATE_WEIGHTS.requestSeconds * PREFILL_TOKENS_PER_SECOND;
  const reports: NodeReport[] = [];
  const waiting: (() => boolean)[] = [];
  const aheadOf = () =>
    sent.unread.map((tokens, node) => Math.max(tokens, reports[node]?.queuedUncachedTokens ?? 0) / ranks);
  const pass = () => {
    if (waiting.length === 0 || aheadOf().every((tokens) => tokens >= longTokens)) return;
    const still = waiting.splice(0).filter((begin) => !begin());
    waiting.unshift(...still);
  };
  const sent = new Sent(nodes.length, pass);
  const isFull = (node: number) => caches.tokens(node * ranks) > FULL_SHARE * caches.capacity;
  return {
    reported(node, report) {
      reports[node] = report;
      pass();
    },
    send(prompt, dispatch) {
      const begin = () => {
        const cached = cachedOn(fleet, prompt);
        const most = Math.max(...cached);
        const copyWeight = nodes.every((_, node) => isFull(node)) ? GATE_WEIGHTS.copied : 0;
        const ahead = aheadOf();
        const costs = cached.map(
          (tokens, node) =>
            (ahead[node] ?? 0) +
            (prompt.tokens - tokens) +
            copyWeight * (most - tokens) +
            requestTokens *
              Math.max(sent.requests[node] ?? 0, (reports[node]?.running ?? 0) + (reports[node]?.waiting ?? 0)),
        );
        const node = leastOf(costs);
        const missing = prompt.tokens - (cached[node] ?? 0);
        if (missing > longTokens && (ahead[node] ?? 0) >= longTokens) return false;
        dispatch(node, sent.follow(node, prompt, missing, "progress"));
        return true;
      };
      if (!begin()) waiting.push(begin);
    },
  };
}
