import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { EndpointSet } from "../load-balancing/endpoint-set.ts";
import type { EndpointView } from "../load-balancing/endpoint-view.ts";
import type { PolicyPick } from "../load-balancing/policy.ts";

/**
 * The mean interval between the idle checks of gateways that share an endpoint, in milliseconds: several times the
 * delay until a node reports one gateway's requests to the others.
 */
const APART_MS = 1_000;
/**
 * The longest wait of a gateway for the others, in milliseconds; an endpoint counts as idle with some seconds of work
 * left, so that it does not run dry meanwhile.
 */
const MAX_APART_MS = 5_000;
/** The prefill time above which a prompt is long, in seconds. */
const LONG_SECONDS = 2;
/** The outstanding prefill with which an endpoint receives no long prompt, in seconds. */
const MAX_AHEAD_SECONDS = 2;

/** What a request waits for although some endpoint has capacity: going there now would cost others more than it gains. */
export type ThrottleWait = {
  /**
   * `slot`: the endpoint that holds most of the prompt is full, and all others would prefill much. `prefill`: the
   * prompt needs much prefill on any endpoint, and the endpoint is busy with prefill.
   */
  readonly kind: "slot" | "prefill";
  /** The address of the awaited endpoint; undefined where any will do. */
  readonly address: string | undefined;
  /** The expected prefill time on that endpoint, in seconds. */
  readonly seconds: number;
};

/** One pass over the waiting requests, within one tick of the event loop. */
export type ThrottlePass = {
  /** Returns whether any endpoint can begin a long prefill now. */
  anyIdle(): boolean;
  /** Returns whether a wait may be over, as far as can be determined without another pick. */
  isOver(wait: ThrottleWait): boolean;
};

export type PrefillThrottleParts = {
  readonly endpoints: EndpointSet;
  readonly clock: Pick<Clock, "nowMs">;
  readonly random: () => number;
};

/** The properties of a prompt that decide its wait. */
export type ThrottledPrompt = {
  /** The expected number of tokens of the whole prompt. */
  readonly tokens: number;
  /** Returns whether other requests wait for prefill, and this prompt comes after them. */
  readonly isLast: () => boolean;
  /** Whether the request's wait has reached its limit: then it goes to the first endpoint that is idle. */
  readonly overdue: boolean;
  /** Picks among all endpoints, including those without capacity; undefined where there is none. */
  readonly pickAnywhere: () => PolicyPick | undefined;
};

/**
 * Sends prompts that need much prefill to an endpoint one at a time. A node prefills sequentially: behind several long
 * prompts, cached ones wait until they are evicted, and become long, too. Waiting in the gateway instead, they keep
 * their order, and go to the best endpoint when they are next.
 *
 * The policy's expectation is the only input: without one, no request waits.
 */
export class PrefillThrottle {
  readonly #parts: PrefillThrottleParts;
  /**
   * For each endpoint that was busy at the last check, the monotonic milliseconds at which it counts as idle; undefined
   * while it is busy.
   */
  readonly #idleFromMs = new Map<string, number | undefined>();

  constructor(parts: PrefillThrottleParts) {
    this.#parts = parts;
    parts.endpoints.onLeave((address) => this.#idleFromMs.delete(address));
  }

  /** Returns the wait of a request before it goes to the picked endpoint; undefined where it may go now. */
  waitFor({ endpoint, uncachedTokens = 0 }: PolicyPick, prompt: ThrottledPrompt): ThrottleWait | undefined {
    const seconds = uncachedTokens / endpoint.prefillTokensPerSecond;
    if (seconds <= LONG_SECONDS) return undefined;
    if (prompt.isLast() || !this.#isIdle(endpoint)) {
      // Where the endpoint holds little of the prompt, any other will do as well.
      const isAnyAsGood = prompt.overdue || uncachedTokens > prompt.tokens / 2;
      return { kind: "prefill", address: isAnyAsGood ? undefined : endpoint.address, seconds };
    }
    if (prompt.overdue) return undefined;
    const best = prompt.pickAnywhere();
    const bestTokens = best?.uncachedTokens ?? uncachedTokens;
    if (!best || best.endpoint.address === endpoint.address || bestTokens > uncachedTokens / 2) return undefined;
    const bestSeconds = bestTokens / best.endpoint.prefillTokensPerSecond;
    const kind = bestSeconds > LONG_SECONDS ? "prefill" : "slot";
    return { kind, address: best.endpoint.address, seconds: bestSeconds };
  }

  /** Begins a pass over the waiting requests: admissions during the pass make endpoints busier, and none idle. */
  pass(): ThrottlePass {
    const { endpoints } = this.#parts;
    let noneIdle = false;
    const anyIdle = () => {
      noneIdle ||= ![...endpoints].some((endpoint) => this.#isIdle(endpoint) && endpoints.hasCapacity(endpoint));
      return !noneIdle;
    };
    const isOver = ({ kind, address }: ThrottleWait) => {
      if (address === undefined) return anyIdle();
      const endpoint = endpoints.get(address);
      return !endpoint || (endpoints.hasCapacity(endpoint) && (kind === "slot" || this.#isIdle(endpoint)));
    };
    return { anyIdle, isOver };
  }

  /**
   * Returns whether an endpoint has little to prefill. Gateways that share it would detect this at the same moment, and
   * each send it a long prompt: each waits for a random time, and then checks whether another was first.
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
