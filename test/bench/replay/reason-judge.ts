import type { CacheNote, CacheReason } from "../../../gateway/upstream/prefixes/cache-note.ts";
import type { PieceCaches } from "./piece-cache.ts";
import type { PieceStore } from "./piece-store.ts";
import type { Prompt } from "./prompt.ts";

/** The loss below which nothing needs a reason: so many tokens, and that share of the prompt. */
const TOLERATED = { tokens: 64, share: 0.01 };
/** The prompts of an agent among which the one is looked for that a prompt goes on from: some go back by dozens. */
const LOOK_BACK = 60;
/** The tokens at the end of a prompt by which the recording of its next turn may differ without meaning anything. */
const ARTEFACT_TOKENS = 128;
/** The share of the most lost tokens from which on another reason for almost as many is as true. */
const AS_MANY = 0.9;

/** The tokens of a prompt that were lost for each reason, by who knows all caches. */
type Losses = Partial<Record<CacheReason, number>>;

/** An earlier prompt of an agent. */
type Earlier = Pick<Prompt, "last" | "tokens" | "shape"> & { readonly gateway: number };

/**
 * Judges the reasons that gateways give for what was not cached, by what the replay knows: all caches at the moment of the
 * prefill, what any of them ever had, and the earlier prompts of the agent. It runs beside the replay and changes nothing.
 */
export class ReasonJudge {
  readonly #store: PieceStore;
  readonly #caches: PieceCaches;
  /** The pieces that some node has prefilled. */
  readonly #prefilled = new Set<number>();
  readonly #earlier = new Map<string, Earlier[]>();
  #lostTokens = 0;
  #trueTokens = 0;

  /** Begins with nothing judged. */
  constructor(store: PieceStore, caches: PieceCaches) {
    this.#store = store;
    this.#caches = caches;
  }

  /** The share of the lost tokens that got the true reason; NaN where nothing was lost. */
  get trueShare(): number {
    return this.#trueTokens / this.#lostTokens;
  }

  /** Judges what a gateway says of a prompt when a node begins with it, of which `cachedTokens` were cached. */
  judge(prompt: Prompt, gateway: number, cachedTokens: number, { reason, lostTokens }: CacheNote): void {
    const losses = this.#lossesOf(prompt, gateway, cachedTokens);
    const most = Math.max(0, ...Object.values(losses));
    const needsOne = most > TOLERATED.tokens + TOLERATED.share * prompt.tokens;
    // A reason for what was not lost is as wrong as a wrong one.
    const tokens = needsOne ? most : lostTokens;
    this.#lostTokens += tokens;
    if (needsOne && (losses[reason] ?? 0) >= AS_MANY * most) this.#trueTokens += tokens;
    this.#remember(prompt, gateway);
  }

  /** Notes that a node has prefilled a prompt. */
  prefilled({ last }: Prompt): void {
    for (let piece = last; piece >= 0 && !this.#prefilled.has(piece); piece = this.#store.parent(piece))
      this.#prefilled.add(piece);
  }

  #lossesOf(prompt: Prompt, gateway: number, cachedTokens: number): Losses {
    const elsewhere = Math.max(...this.#caches.cachedEverywhere(prompt.last));
    let piece = prompt.last;
    while (piece >= 0 && !this.#prefilled.has(piece)) piece = this.#store.parent(piece);
    const everTokens = this.#store.depth(piece);
    const before = this.#goesOnFrom(prompt);
    const isChanged = before !== undefined && before.tokens - before.common > ARTEFACT_TOKENS;
    // A message that was changed at its end is another one to a gateway, which cannot find where the rest is cached.
    const found = isChanged ? Math.max(knownTokens(before, prompt), Math.min(cachedTokens, before.common)) : 0;
    const changed = isChanged ? before.tokens - found : 0;
    const evicted = everTokens - Math.max(cachedTokens, elsewhere);
    const moved = elsewhere - cachedTokens;
    const losses: Losses = { evicted, moved };
    if (isChanged) losses[prompt.tokens < before.tokens / 2 ? "compaction" : "client_changed"] = changed;
    // Who did not see the turn before cannot say what became of it, nor how much longer it was than this one.
    if (before && before.gateway !== gateway) {
      losses.other_gateway = Math.max(evicted, moved, changed);
      if (isChanged) Object.assign(losses, { client_changed: changed, compaction: changed });
    }
    // Users join in the middle of sessions, whose earlier turns came by nobody here.
    if (!before) losses.other_gateway = turnTokens(prompt) - cachedTokens;
    return losses;
  }

  /** Returns the earlier prompt of the same agent that a prompt has most in common with, of several the newest. */
  #goesOnFrom({ affinityKey, last }: Prompt): (Earlier & { readonly common: number }) | undefined {
    let best: (Earlier & { readonly common: number }) | undefined;
    for (const earlier of this.#earlier.get(affinityKey) ?? []) {
      const common = this.#store.depth(this.#commonPiece(earlier.last, last));
      if (!best || common >= best.common) best = { ...earlier, common };
    }
    return best;
  }

  /** Returns the last piece that two prompts have in common; -1 for none. */
  #commonPiece(one: number, other: number): number {
    let [a, b] = [one, other];
    while (a !== b)
      if (this.#store.depth(a) > this.#store.depth(b)) a = this.#store.parent(a);
      else if (this.#store.depth(b) > this.#store.depth(a)) b = this.#store.parent(b);
      else [a, b] = [this.#store.parent(a), this.#store.parent(b)];
    return a;
  }

  #remember({ affinityKey, last, tokens, shape }: Prompt, gateway: number): void {
    const earlier = this.#earlier.get(affinityKey) ?? [];
    earlier.push({ last, tokens, shape, gateway });
    this.#earlier.set(affinityKey, earlier.slice(-LOOK_BACK));
  }
}

/** Returns the tokens of an earlier prompt up to the last digest that is the same in a later one. */
function knownTokens({ tokens, shape: { boundaries } }: Earlier, { shape }: Prompt): number {
  const same = boundaries.findLastIndex(({ hash }, index) => shape.boundaries[index]?.hash === hash);
  return (tokens * (boundaries[same]?.bytes ?? 0)) / (boundaries.at(-1)?.bytes ?? 1);
}

/** Returns the tokens up to the end of the turn that a prompt goes on from; 0 for a first one. */
function turnTokens({ tokens, shape: { boundaries, lastTurn } }: Prompt): number {
  const bytes = lastTurn === undefined ? 0 : (boundaries[lastTurn]?.bytes ?? 0);
  return (tokens * bytes) / (boundaries.at(-1)?.bytes ?? 1);
}
