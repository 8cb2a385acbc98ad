import type { WatchPrefixesResponse } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import type { CacheFill, HeldPrefix, HeldPrefixes } from "../load-balancing/held-prefixes.ts";

/** The bytes of a digest. */
const DIGEST_BYTES = 16;
/** The most prefixes stored for one cluster, of all its endpoints together: about 200 MB. */
const MAX_TOLD = 1_000_000;
const NOBODY: readonly HeldPrefix[] = [];

/** The reported prefixes of one endpoint. */
type Told = { fill: CacheFill; readonly digests: Set<string> };

/** Stores the prefixes that the endpoints of a cluster report. It is bounded: when full, it ignores new prefixes. */
export class ToldPrefixes implements HeldPrefixes {
  readonly #maxTold: number;
  readonly #holders = new Map<string, readonly HeldPrefix[]>();
  readonly #told = new Map<string, Told>();
  #size = 0;

  constructor(maxTold = MAX_TOLD) {
    this.#maxTold = maxTold;
  }

  /** The number of stored prefixes, each counted once per endpoint that holds it. */
  get size(): number {
    return this.#size;
  }

  /** Returns the endpoints that report the prefix with this digest (`Boundary.hash`), each once. */
  holders(digest: string): readonly HeldPrefix[] {
    return this.#holders.get(digest) ?? NOBODY;
  }

  /** Returns the occupancy of an endpoint's cache; undefined while the endpoint does not report it. */
  fillOf(address: string): CacheFill | undefined {
    return this.#told.get(address)?.fill;
  }

  /** Returns the number of prefixes that an endpoint reports; undefined while it reports none. */
  countOf(address: string): number | undefined {
    return this.#told.get(address)?.digests.size;
  }

  /** Applies the next message of the endpoint at `address`. */
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

  /** Removes all reported prefixes of the endpoint at `address`. */
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
