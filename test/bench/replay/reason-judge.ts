import type { CacheNote, CacheReason } from "../../../gateway/upstream/load-balancing/cache-reasons.ts";
import type { PieceCaches, PieceStore } from "./piece-cache.ts";
import type { Prompt } from "./traffic.ts";

const TOLERATED = { tokens: 64, share: 0.01 };
const LOOK_BACK = 60;
const ARTEFACT_TOKENS = 128;
const AS_MANY = 0.9;

type Losses = Partial<Record<CacheReason, number>>;

/** What there was of a prompt when its prefill began, in tokens: in any cache, and prefilled at any time before. */
type Found = { readonly elsewhere: number; readonly everTokens: number };

type Earlier = Pick<Prompt, "last" | "tokens" | "shape"> & { readonly gateway: number };

/**
 * Judges the gateways' reasons for uncached tokens by the state of the replay: all caches at the time of the prefill,
 * their former contents, and the agent's earlier prompts. It does not affect the replay.
 */
export class ReasonJudge {
  readonly #store: PieceStore;
  readonly #caches: PieceCaches;
  readonly #prefilled = new Set<number>();
  readonly #found = new WeakMap<Prompt, Found>();
  readonly #earlier = new Map<string, Earlier[]>();
  #lostTokens = 0;
  #trueTokens = 0;

  constructor(store: PieceStore, caches: PieceCaches) {
    this.#store = store;
    this.#caches = caches;
  }

  /** The share of lost tokens with the true reason; NaN without losses. */
  get trueShare(): number {
    return this.#trueTokens / this.#lostTokens;
  }

  /** The prefill of a prompt begins; nodes beside vLLM report its cached tokens when all caches hold the prompt itself. */
  started(prompt: Prompt): void {
    let piece = prompt.last;
    while (piece >= 0 && !this.#prefilled.has(piece)) piece = this.#store.parent(piece);
    const elsewhere = Math.max(...this.#caches.cachedEverywhere(prompt.last));
    this.#found.set(prompt, { elsewhere, everTokens: this.#store.depth(piece) });
  }

  judge(prompt: Prompt, gateway: number, { cachedTokens, reason, lostTokens }: CacheNote): void {
    const losses = this.#lossesOf(prompt, gateway, cachedTokens);
    const most = Math.max(0, ...Object.values(losses));
    const needsOne = most > TOLERATED.tokens + TOLERATED.share * prompt.tokens;
    // A reason without a loss is as wrong as a wrong reason.
    const tokens = needsOne ? most : lostTokens;
    this.#lostTokens += tokens;
    if (needsOne && (losses[reason] ?? 0) >= AS_MANY * most) this.#trueTokens += tokens;
    this.#remember(prompt, gateway);
  }

  prefilled({ last }: Prompt): void {
    for (let piece = last; piece >= 0 && !this.#prefilled.has(piece); piece = this.#store.parent(piece))
      this.#prefilled.add(piece);
  }

  #lossesOf(prompt: Prompt, gateway: number, cachedTokens: number): Losses {
    const { elsewhere, everTokens } = this.#found.get(prompt) ?? { elsewhere: 0, everTokens: 0 };
    const before = this.#goesOnFrom(prompt);
    const isChanged = before !== undefined && before.tokens - before.common > ARTEFACT_TOKENS;
    // For a gateway, a message changed at its end is a new message, after which it cannot find cached tokens.
    const found = isChanged ? Math.max(knownTokens(before, prompt), Math.min(cachedTokens, before.common)) : 0;
    const changed = isChanged ? before.tokens - found : 0;
    const evicted = everTokens - Math.max(cachedTokens, elsewhere);
    const moved = elsewhere - cachedTokens;
    const losses: Losses = { evicted, slot_taken: evicted, moved };
    if (isChanged) losses[prompt.tokens < before.tokens / 2 ? "rewritten" : "client_changed"] = changed;
    // A gateway that did not route the last turn can know neither its cache nor how much longer it was.
    if (before && before.gateway !== gateway) {
      losses.other_gateway = Math.max(evicted, moved, changed);
      if (isChanged) Object.assign(losses, { client_changed: changed, rewritten: changed });
    }
    // Users join sessions in the middle; no gateway routed the turns before.
    if (!before) {
      const unseen = turnTokens(prompt) - cachedTokens;
      Object.assign(losses, { other_gateway: unseen, begun_elsewhere: unseen });
    }
    return losses;
  }

  #goesOnFrom({ affinityKey, last }: Prompt): (Earlier & { readonly common: number }) | undefined {
    let best: (Earlier & { readonly common: number }) | undefined;
    for (const earlier of this.#earlier.get(affinityKey) ?? []) {
      const common = this.#store.depth(this.#store.common(earlier.last, last));
      if (!best || common >= best.common) best = { ...earlier, common };
    }
    return best;
  }

  #remember({ affinityKey, last, tokens, shape }: Prompt, gateway: number): void {
    const earlier = this.#earlier.get(affinityKey) ?? [];
    earlier.push({ last, tokens, shape, gateway });
    this.#earlier.set(affinityKey, earlier.slice(-LOOK_BACK));
  }
}

function knownTokens({ tokens, shape: { boundaries } }: Earlier, { shape }: Prompt): number {
  const same = boundaries.findLastIndex(({ hash }, index) => shape.boundaries[index]?.hash === hash);
  return (tokens * (boundaries[same]?.bytes ?? 0)) / (boundaries.at(-1)?.bytes ?? 1);
}

/** Returns the tokens up to the end of the turn that a prompt continues; 0 for a first one. */
function turnTokens({ tokens, shape: { boundaries, lastTurn } }: Prompt): number {
  const bytes = lastTurn === undefined ? 0 : (boundaries[lastTurn]?.bytes ?? 0);
  return (tokens * bytes) / (boundaries.at(-1)?.bytes ?? 1);
}
