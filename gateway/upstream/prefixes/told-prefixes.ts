import type { WatchPrefixesResponse } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import type { CacheFill, HeldPrefix, HeldPrefixes } from "../load-balancing/held-prefixes.ts";

/** The bytes of a digest. */
const DIGEST_BYTES = 16;
/** The most prefixes that one cluster remembers, of all its endpoints together: about 200 MB of them. */
const MAX_TOLD = 1_000_000;
const NOBODY: readonly HeldPrefix[] = [];

/** What one endpoint has told. */
type Told = { fill: CacheFill; readonly digests: Set<string> };

/**
 * Remembers what the endpoints of a cluster have told of their caches. It is bounded: of more prefixes than it can
 * remember it takes none of those that are new.
 */
export class ToldPrefixes implements HeldPrefixes {
  readonly #maxTold: number;
  readonly #holders = new Map<string, readonly HeldPrefix[]>();
  readonly #told = new Map<string, Told>();
  #size = 0;

  /** Begins with nothing told. */
  constructor(maxTold = MAX_TOLD) {
    this.#maxTold = maxTold;
  }

  /** The number of prefixes that are remembered, each as often as endpoints hold it. */
  get size(): number {
    return this.#size;
  }

  /** Returns the endpoints that have told that they hold the prefix with this digest (`Boundary.hash`), each once. */
  holders(digest: string): readonly HeldPrefix[] {
    return this.#holders.get(digest) ?? NOBODY;
  }

  /** Returns how full an endpoint's cache is; undefined while it does not tell what it holds. */
  fillOf(address: string): CacheFill | undefined {
    return this.#told.get(address)?.fill;
  }

  /** Returns the number of prefixes that an endpoint has told that it holds; undefined while it does not tell. */
  countOf(address: string): number | undefined {
    return this.#told.get(address)?.digests.size;
  }

  /** Takes the next message of the endpoint at `address`. */
  take(address: string, { reset, held, dropped, kvTokensUsed, kvTokensTotal }: WatchPrefixesResponse): void {
    if (reset) this.forget(address);
    const fill = { usedTokens: kvTokensUsed, totalTokens: kvTokensTotal };
    const told = this.#told.get(address) ?? { fill, digests: new Set() };
    told.fill = fill;
    this.#told.set(address, told);
    for (let at = 0; at < dropped.length; at += DIGEST_BYTES)
      this.#drop(dropped.toString("base64url", at, at + DIGEST_BYTES), address, told);
    for (const { digest, tokens, tailTokens } of held)
      this.#hold(digest.toString("base64url"), { address, tokens, tailTokens }, told);
  }

  /** Forgets all that the endpoint at `address` has told. */
  forget(address: string): void {
    const told = this.#told.get(address);
    if (!told) return;
    for (const digest of told.digests) this.#drop(digest, address, told);
    this.#told.delete(address);
  }

  #hold(digest: string, holder: HeldPrefix, { digests }: Told): void {
    if (!digests.has(digest)) {
      if (this.#size >= this.#maxTold) return;
      digests.add(digest);
      this.#size += 1;
    }
    const others = this.holders(digest).filter(({ address }) => address !== holder.address);
    this.#holders.set(digest, [...others, holder]);
  }

  #drop(digest: string, from: string, { digests }: Told): void {
    if (!digests.delete(digest)) return;
    this.#size -= 1;
    const others = this.holders(digest).filter(({ address }) => address !== from);
    if (others.length > 0) this.#holders.set(digest, others);
    else this.#holders.delete(digest);
  }
}
