import { LRUCache } from "lru-cache";
import type { RequestOfDeathSettings } from "./retry-settings.ts";

/** The loss of an endpoint, or its silence, while it worked on a request, without a word of its own. */
export type Death = {
  /** The address of the endpoint. */
  readonly address: string;
  /**
   * The time for which the endpoint had worked on the request when it was lost, or showed its last sign of life, in
   * milliseconds.
   */
  readonly workedMs: number;
};

/** The judgement on a request; `laterMs` is the time for which it is to stay away, in milliseconds. */
export type Verdict = "allowed" | "denied" | { readonly laterMs: number };

/** The loss of one endpoint with requests on it. */
type Loss = {
  readonly address: string;
  readonly atMs: number;
  /**
   * The digests of the requests on the endpoint that had been suspected before, and have now killed enough to be
   * denied.
   */
  readonly suspects: Set<string>;
  /** The number of requests that the endpoint worked on, as far as they have been told of. */
  requests: number;
};

/** What others may know of the loss of an endpoint. */
export type KnownLoss = {
  /** The moment of the loss, in milliseconds of the monotonic clock. */
  readonly atMs: number;
  /** The number of requests that the endpoint worked on, as far as they have been told of by now. */
  readonly requests: number;
};

type Suspect = { readonly losses: ReadonlySet<Loss>; readonly newest: Loss };

/**
 * Knows the requests that kill engines, by keyed digests of them: tried again and again, one such request would walk
 * through the whole cluster.
 *
 * A request is blamed for two deaths that look like its doing: each soon after the endpoint took it up, one soon after
 * the other, on different endpoints, and no answer to it in between. Deaths of endpoints that had said they would go
 * are not to be told of. Where several requests went through both, or other endpoints died at that time, as when nodes
 * are killed one after another for reasons of their own, it cannot be seen which of them it was, or whether any: they
 * stay away for a moment, which ends the walk too. Then the innocent ones are answered, and one that goes through one
 * death after another is denied, by default at the sixth. One that went through both alone among others, of which many
 * move from one endpoint to the next, is kept away first, and is denied if nothing dies meanwhile.
 *
 * Two limits remain. An innocent request that is the only one to be new on two nodes, and no other dies, is denied. And
 * one that kills late, in the middle of a long answer, is never found; such a request is not tried again by itself, as
 * its first delta has gone out.
 */
export class RequestsOfDeath {
  readonly #settings: RequestOfDeathSettings;
  /** The suspected requests by their digests. */
  readonly #suspects: LRUCache<string, Suspect>;
  /** The losses that are remembered, in the order in which they came. */
  #losses: Loss[] = [];

  constructor(settings: RequestOfDeathSettings) {
    this.#settings = settings;
    this.#suspects = new LRUCache({ max: settings.maxEntries });
  }

  /**
   * Tells of a request that an endpoint was lost with. It is to be judged when the other requests of that death have
   * been told of, too. Returns what is known of the loss, which grows until then.
   */
  killed(digest: string, { address, workedMs }: Death, nowMs: number): KnownLoss {
    const { endpoints, withinMs } = this.#settings;
    const newest = this.#lossOf(address, nowMs);
    newest.requests += 1;
    if (workedMs > withinMs) return newest;
    const losses = new Set([...(this.#suspect(digest, nowMs)?.losses ?? []), newest]);
    if (addressesOf(losses) >= endpoints) newest.suspects.add(digest);
    this.#suspects.set(digest, { losses, newest });
    return newest;
  }

  /**
   * Returns whether the newest loss that a request has been through, the last of `losses`, may be the doing of others:
   * the endpoint worked on more than this request, or endpoints were lost at about that time that it never was on.
   */
  inDoubt(losses: ReadonlySet<KnownLoss>): boolean {
    const newest = [...losses].at(-1);
    return newest !== undefined && (newest.requests > 1 || this.#othersDied(losses, newest));
  }

  /** Tells of a request that an endpoint has answered to its end: it is not suspected any more. */
  answered(digest: string): void {
    this.#suspects.delete(digest);
  }

  /** Returns what is to become of the request at `nowMs`, in milliseconds of the monotonic clock. */
  judge(digest: string, nowMs: number): Verdict {
    const suspect = this.#suspect(digest, nowMs);
    if (!suspect || addressesOf(suspect.losses) < this.#settings.endpoints) return "allowed";
    const isDoubtful = this.#isDoubtful(suspect);
    const laterMs = suspect.newest.atMs + (isDoubtful ? this.#settings.apartMs : this.#watchMs(suspect.losses)) - nowMs;
    if (laterMs > 0) return { laterMs };
    return isDoubtful ? "allowed" : "denied";
  }

  /**
   * Returns the time after its newest death, in milliseconds, for which a request is kept away to see whether endpoints
   * die without it: 0 where one died with this request alone. It is about the time that a node takes to start, in which
   * whoever kills nodes one after another may wait for it, and as long again.
   */
  #watchMs(losses: ReadonlySet<KnownLoss>): number {
    const { mostDeaths, apartMs } = this.#settings;
    const isClear = losses.size >= mostDeaths || [...losses].some(({ requests }) => requests === 1);
    return isClear ? 0 : 2 * apartMs;
  }

  /**
   * Returns whether the deaths may be the doing of another request, or of something that also took endpoints on which
   * this one never was.
   */
  #isDoubtful({ losses, newest }: Suspect): boolean {
    if (losses.size >= this.#settings.mostDeaths) return false;
    return newest.suspects.size > 1 || this.#othersDied(losses, newest);
  }

  /** Returns whether endpoints were lost at about the time of the newest of some losses that are not among these. */
  #othersDied(losses: ReadonlySet<KnownLoss>, newest: KnownLoss): boolean {
    const { suspectMs, apartMs } = this.#settings;
    const afterMs = Math.max(apartMs, this.#watchMs(losses));
    const isNear = ({ atMs }: Loss) => atMs > newest.atMs - suspectMs && atMs < newest.atMs + afterMs;
    return this.#losses.some((loss) => !losses.has(loss) && isNear(loss));
  }

  #suspect(digest: string, nowMs: number): Suspect | undefined {
    const { endpoints, suspectMs, denyMs } = this.#settings;
    const suspect = this.#suspects.get(digest);
    if (!suspect) return undefined;
    const deniable = addressesOf(suspect.losses) >= endpoints && !this.#isDoubtful(suspect);
    if (nowMs < suspect.newest.atMs + (deniable ? denyMs : suspectMs)) return suspect;
    this.#suspects.delete(digest);
    return undefined;
  }

  #lossOf(address: string, nowMs: number): Loss {
    const { oneDeathMs, suspectMs } = this.#settings;
    const known = this.#losses.find((loss) => loss.address === address && nowMs - loss.atMs < oneDeathMs);
    if (known) return known;
    const loss: Loss = { address, atMs: nowMs, suspects: new Set(), requests: 0 };
    // The newest death of whoever is in doubt is no older than that, and looks back as far again.
    this.#losses = [...this.#losses.filter(({ atMs }) => nowMs - atMs < 2 * suspectMs), loss];
    return loss;
  }
}

function addressesOf(losses: ReadonlySet<Loss>): number {
  return new Set([...losses].map(({ address }) => address)).size;
}
