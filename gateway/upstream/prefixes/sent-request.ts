import { type PromptShape, promptBytes } from "../load-balancing/boundary-hashes.ts";
import type { CacheNote, Loss } from "./cache-note.ts";
import type { KeptTurn } from "./kept-conversations.ts";
import type { ReadPrompt } from "./read-prompts.ts";

/** The loss below which nothing needs explaining, in tokens and as a share of the prompt. */
const TOLERATED = { tokens: 64, share: 0.01 };

/** The tokens per byte of an unmeasured prompt. */
const TOKENS_PER_BYTE = 0.25;

/** The tokens of an answer, as an engine counts them. */
type AnswerTokens = {
  /** The tokens of the prompt. */
  readonly inputTokens: number;
  /** All tokens of the answer. */
  readonly outputTokens: number;
  /** The reasoning tokens among them. */
  readonly reasoningTokens: number;
};

/** The properties of a request when it is sent. */
export type SentFacts = {
  readonly shape: PromptShape;
  /** The possible losses. */
  readonly losses: readonly Loss[];
  /** The tokens expected in the cache. */
  readonly expected: number;
  /** Whether the request begins a conversation of which nothing was seen before. */
  readonly isNew: boolean;
};

/** Receives the events of a request for its ledger. */
export type Memory = {
  /** Follows the conversation on the endpoint; undefined where it caches by blocks. */
  readonly kept: KeptTurn | undefined;
  /** Called when the cached tokens are measured. */
  readonly measured: () => void;
  /** Called when the endpoint has prefilled the prompt of `inputTokens` tokens, at the monotonic time `atMs`. */
  readonly prefilled: (inputTokens: number, atMs: number) => ReadPrompt;
};

/** A request on its way to an endpoint, until the end of its answer. */
export class SentRequest {
  readonly #facts: SentFacts;
  readonly #memory: Memory;
  #prompt: ReadPrompt | undefined;

  constructor(facts: SentFacts, memory: Memory) {
    this.#facts = facts;
    this.#memory = memory;
  }

  /**
   * Records at the monotonic time `nowMs` that the endpoint has prefilled the prompt: from then on other requests can
   * find it there. Does nothing for 0 tokens, an unknown count, and nothing at a second call.
   */
  prefilled(inputTokens: number, nowMs: number): void {
    if (inputTokens === 0 || this.#prompt) return;
    this.#prompt = this.#memory.prefilled(inputTokens, nowMs);
    this.#memory.kept?.read(inputTokens);
  }

  /**
   * Records at the monotonic time `nowMs` that the answer has ended. The next turn finds it behind the prompt, unless
   * it begins with reasoning, which is left out of the history.
   */
  answered({ inputTokens, outputTokens, reasoningTokens }: AnswerTokens, nowMs: number): void {
    // Some engines count the prompt only after the answer begins.
    if (this.#prompt?.inputTokens !== inputTokens) this.#prompt = undefined;
    this.prefilled(inputTokens, nowMs);
    if (!this.#prompt) return;
    this.#prompt.atMs = nowMs;
    this.#prompt.answerTokens = reasoningTokens > 0 ? 0 : outputTokens;
    this.#memory.kept?.answered(this.#prompt.answerTokens);
  }

  /** Records at the monotonic time `nowMs` the end of the request, with any result. Idempotent. */
  ended(nowMs: number): void {
    this.#memory.kept?.ended(nowMs);
  }

  /** Explains the cached tokens of a prompt of `inputTokens` tokens. */
  measured(inputTokens: number, cachedTokens: number): CacheNote {
    const { shape, losses, expected, isNew } = this.#facts;
    const { kept } = this.#memory;
    this.#memory.measured();
    const bytes = promptBytes(shape);
    const tokensPerByte = bytes > 0 && inputTokens > 0 ? inputTokens / bytes : TOKENS_PER_BYTE;
    const tolerated = TOLERATED.tokens + TOLERATED.share * inputTokens;
    if (kept && cachedTokens + tolerated < kept.expectedTokens) kept.missed();
    // Where all turns are cached as they are, the change seen here was already prefilled through another gateway.
    const turnBytes = shape.boundaries[shape.lastTurn ?? -1]?.bytes ?? Number.POSITIVE_INFINITY;
    const isOld = cachedTokens >= turnBytes * tokensPerByte - tolerated;
    let worst: { readonly tokens: number; readonly loss: Loss } | undefined;
    for (const loss of losses) {
      if (isOld && loss.changedMessage !== undefined && loss.changedMessage <= (shape.lastTurn ?? -1)) continue;
      const upTo = Math.min(loss.upToTokens ?? Number.POSITIVE_INFINITY, loss.upToBytes * tokensPerByte);
      const unchanged = loss.fromTokens ?? tokensPerByte * (loss.fromBytes ?? 0);
      // The part that a client changed is lost whatever else was cached.
      const from = loss.changedMessage === undefined ? Math.max(cachedTokens, unchanged) : unchanged;
      const tokens = Math.round(upTo - from);
      if (tokens > tolerated && tokens > (worst?.tokens ?? 0)) worst = { tokens, loss };
    }
    return {
      expectedTokens: Math.min(expected, inputTokens),
      cachedTokens,
      lostTokens: worst?.tokens ?? 0,
      reason: worst?.loss.reason ?? (isNew ? "new" : "hit"),
      changedMessage: worst?.loss.changedMessage,
    };
  }
}
