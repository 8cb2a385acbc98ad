import { type PromptShape, promptBytes } from "../load-balancing/boundary-hashes.ts";
import type { CacheNote, Loss } from "./cache-note.ts";
import type { KeptTurn } from "./kept-conversations.ts";
import type { ReadPrompt } from "./read-prompts.ts";

/** The loss below which nothing needs explaining: so many tokens, and that share of the prompt. */
const TOLERATED = { tokens: 64, share: 0.01 };

/** The tokens to a byte of a prompt that nobody has measured. */
const TOKENS_PER_BYTE = 0.25;

/** The tokens of an answer, as an engine counts them. */
type AnswerTokens = {
  /** The tokens of the prompt. */
  readonly inputTokens: number;
  /** All tokens of the answer. */
  readonly outputTokens: number;
  /** Those of its reasoning. */
  readonly reasoningTokens: number;
};

/** What is known of a request when it is sent. */
export type SentFacts = {
  /** The digests and sizes of the prompt. */
  readonly shape: PromptShape;
  /** What may turn out to have been lost. */
  readonly losses: readonly Loss[];
  /** The tokens that are expected in the cache. */
  readonly expected: number;
  /** Whether the request begins a conversation of which nothing was seen before. */
  readonly isNew: boolean;
};

/** Takes what becomes of a request into the memory of its ledger. */
export type Memory = {
  /** Follows the conversation that the endpoint has taken up; undefined where it caches by blocks. */
  readonly kept: KeptTurn | undefined;
  /** Called when the cached tokens are known. */
  readonly measured: () => void;
  /** Called when the endpoint has read the prompt, of so many tokens, at that monotonic time in milliseconds. */
  readonly prefilled: (inputTokens: number, atMs: number) => ReadPrompt;
};

/** A request on its way to an endpoint, until its answer has ended. */
export class SentRequest {
  readonly #facts: SentFacts;
  readonly #memory: Memory;
  #prompt: ReadPrompt | undefined;

  /** Begins to follow a request of which these facts are known. */
  constructor(facts: SentFacts, memory: Memory) {
    this.#facts = facts;
    this.#memory = memory;
  }

  /**
   * Notes at the monotonic time `nowMs` that the endpoint has read the prompt, of so many tokens: from then on others can
   * find it there. It does nothing where the tokens are not known, 0, and nothing at a second call.
   */
  prefilled(inputTokens: number, nowMs: number): void {
    if (inputTokens === 0 || this.#prompt) return;
    this.#prompt = this.#memory.prefilled(inputTokens, nowMs);
    this.#memory.kept?.read(inputTokens);
  }

  /**
   * Notes at the monotonic time `nowMs` that the answer has ended. The next turn finds it behind the prompt, but for one
   * that begins with reasoning, which is left out of the history.
   */
  answered({ inputTokens, outputTokens, reasoningTokens }: AnswerTokens, nowMs: number): void {
    // Not every engine has counted the prompt before its answer begins.
    if (this.#prompt?.inputTokens !== inputTokens) this.#prompt = undefined;
    this.prefilled(inputTokens, nowMs);
    if (!this.#prompt) return;
    this.#prompt.atMs = nowMs;
    this.#prompt.answerTokens = reasoningTokens > 0 ? 0 : outputTokens;
    this.#memory.kept?.answered(this.#prompt.answerTokens);
  }

  /** Notes at the monotonic time `nowMs` that the request is over, however it ended. A second call does nothing. */
  ended(nowMs: number): void {
    this.#memory.kept?.ended(nowMs);
  }

  /** Explains what was cached of `inputTokens` tokens of prompt. */
  measured(inputTokens: number, cachedTokens: number): CacheNote {
    const { shape, losses, expected, isNew } = this.#facts;
    const { kept } = this.#memory;
    this.#memory.measured();
    const bytes = promptBytes(shape);
    const tokensPerByte = bytes > 0 && inputTokens > 0 ? inputTokens / bytes : TOKENS_PER_BYTE;
    const tolerated = TOLERATED.tokens + TOLERATED.share * inputTokens;
    if (kept && cachedTokens + tolerated < kept.expectedTokens) kept.missed();
    // Where all turns are cached as they stand, the change that is seen here was paid for by way of another gateway.
    const turnBytes = shape.boundaries[shape.lastTurn ?? -1]?.bytes ?? Number.POSITIVE_INFINITY;
    const isOld = cachedTokens >= turnBytes * tokensPerByte - tolerated;
    let worst: { readonly tokens: number; readonly loss: Loss } | undefined;
    for (const loss of losses) {
      if (isOld && loss.changedMessage !== undefined && loss.changedMessage <= (shape.lastTurn ?? -1)) continue;
      const upTo = Math.min(loss.upToTokens ?? Number.POSITIVE_INFINITY, loss.upToBytes * tokensPerByte);
      const unchanged = loss.fromTokens ?? tokensPerByte * (loss.fromBytes ?? 0);
      // What a client has changed is lost whatever else was cached.
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
