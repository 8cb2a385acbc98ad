import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { EndpointView } from "../load-balancing/endpoint-view.ts";
import type { PolicyPick } from "../load-balancing/policy.ts";

/**
 * How far apart the gateways that share an endpoint look whether it is idle, on the average, in milliseconds: some times
 * as long as it takes until a node has told the others of what one of them has sent it. And the longest time for which
 * one of them waits for the others; an endpoint is idle with some seconds of work left, which pass meanwhile.
 */
const APART_MS = 1_000;
const MAX_APART_MS = 5_000;

/** The time of its prefill above which a prompt is a long one, in seconds. */
const LONG_SECONDS = 2;
/** The prefill ahead with which an endpoint is sent no long prompt, in seconds. */
const MAX_AHEAD_SECONDS = 2;

/** What a request waits for although some endpoint would take it: going there now would cost others more than it gains. */
export type PrefillWait = {
  /**
   * `place`: the endpoint that holds most of the prompt takes no more requests, and all others would prefill much.
   * `prefill`: the prompt needs much prefill wherever it goes, and the endpoint has enough of that to do.
   */
  readonly kind: "place" | "prefill";
  /** The address of the endpoint that is waited for; undefined where any of them will do. */
  readonly address: string | undefined;
  /** The time that the prefill takes on that endpoint, in seconds, when its turn comes. */
  readonly seconds: number;
};

/** What turns are given by. */
export type PrefillTurnParts = {
  /** The endpoints of the cluster. */
  readonly views: { get(address: string): EndpointView | undefined; [Symbol.iterator](): Iterator<EndpointView> };
  /** Returns whether an endpoint takes one more request. */
  readonly hasRoom: (endpoint: EndpointView) => boolean;
  /** The clock by which gateways that share an endpoint wait for each other. */
  readonly clock: Clock;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
};

/** One look at those who wait, all in the same turn of the event loop. */
export type PrefillLook = {
  /** Returns whether any endpoint could begin with a long prefill now. */
  anyIdle(): boolean;
  /** Returns whether what a request waited for is there, as far as that shows without another pick. */
  isOver(wait: PrefillWait): boolean;
};

/** The prompt of a request, as far as its turn needs to know it. */
export type PrefillPrompt = {
  /** The tokens that the whole prompt is expected to have. */
  readonly tokens: number;
  /** Whether others wait for their prefill already, behind whom this prompt comes with its own. */
  readonly isLast: boolean;
  /** Whether the request has waited for as long as it may: then it goes to whichever endpoint is the first to be idle. */
  readonly overdue: boolean;
  /** Picks among all endpoints, those without room included; undefined where there is none. */
  readonly pickAnywhere: () => PolicyPick | undefined;
};

/**
 * Lets prompts that need much prefill onto an endpoint one after the other. A node prefills in one row: behind several
 * long ones, prompts that are cached already wait until they are evicted, and then all are long ones. What waits in the
 * gateway instead keeps its order, and goes where it is best when its turn comes.
 *
 * It knows no more than the policy tells: where that expects nothing of caches, nobody waits.
 */
export class PrefillTurns {
  readonly #parts: PrefillTurnParts;
  /**
   * For each endpoint that was busy when it was last looked at, from when on it is idle, in milliseconds of the monotonic
   * clock; undefined while it still is busy.
   */
  readonly #idleFromMs = new Map<string, number | undefined>();

  constructor(parts: PrefillTurnParts) {
    this.#parts = parts;
  }

  /** Forgets the endpoints that have left. */
  forgetLeft(): void {
    const { views } = this.#parts;
    for (const address of this.#idleFromMs.keys()) if (!views.get(address)) this.#idleFromMs.delete(address);
  }

  /** Returns what a request has to wait for before it goes where the policy picked; undefined where it may go now. */
  waitFor({ endpoint, uncachedTokens = 0 }: PolicyPick, prompt: PrefillPrompt): PrefillWait | undefined {
    const seconds = uncachedTokens / endpoint.prefillTokensPerSecond;
    if (!this.#isLong(seconds)) return undefined;
    if (prompt.isLast || !this.#isIdle(endpoint)) {
      // Of a prompt of which the endpoint holds little, another one will do as well.
      const isAnyAsGood = prompt.overdue || uncachedTokens > prompt.tokens / 2;
      const address = isAnyAsGood ? undefined : endpoint.address;
      return { kind: "prefill", address, seconds };
    }
    if (prompt.overdue) return undefined;
    const best = prompt.pickAnywhere();
    const bestTokens = best?.uncachedTokens ?? uncachedTokens;
    if (!best || best.endpoint.address === endpoint.address || bestTokens > uncachedTokens / 2) return undefined;
    const bestSeconds = bestTokens / best.endpoint.prefillTokensPerSecond;
    const kind = this.#isLong(bestSeconds) ? "prefill" : "place";
    return { kind, address: best.endpoint.address, seconds: bestSeconds };
  }

  /** Begins to look at those who wait: whoever is let in meanwhile makes endpoints busier, and none idle. */
  look(): PrefillLook {
    const { views, hasRoom } = this.#parts;
    let noneIdle = false;
    const anyIdle = () => {
      noneIdle ||= !this.#isAnyIdle();
      return !noneIdle;
    };
    const isOver = ({ kind, address }: PrefillWait) => {
      if (address === undefined) return anyIdle();
      const endpoint = views.get(address);
      return !endpoint || (hasRoom(endpoint) && (kind === "place" || this.#isIdle(endpoint)));
    };
    return { anyIdle, isOver };
  }

  #isAnyIdle(): boolean {
    for (const endpoint of this.#parts.views) if (this.#isIdle(endpoint) && this.#parts.hasRoom(endpoint)) return true;
    return false;
  }

  #isLong(seconds: number): boolean {
    return seconds > LONG_SECONDS;
  }

  /**
   * Returns whether an endpoint has little to prefill. Gateways that share it see at the same moment that this has come,
   * and would all send it a long prompt: each of them takes it for idle at a random moment of its own, and then no more
   * if another one came first.
   */
  #isIdle({ address, outstandingPrefillTokens, prefillTokensPerSecond, gateways }: EndpointView): boolean {
    const { clock, random } = this.#parts;
    if (outstandingPrefillTokens > MAX_AHEAD_SECONDS * prefillTokensPerSecond) {
      this.#idleFromMs.set(address, undefined);
      return false;
    }
    if (!this.#idleFromMs.has(address)) return true;
    const nowMs = clock.nowMs();
    const spreadMs = gateways > 1 ? Math.min(MAX_APART_MS, gateways * APART_MS) : 0;
    const idleFromMs = this.#idleFromMs.get(address) ?? nowMs + spreadMs * random();
    this.#idleFromMs.set(address, idleFromMs);
    if (nowMs < idleFromMs) return false;
    this.#idleFromMs.delete(address);
    return true;
  }
}
