import type { Clock } from "../../../../../deploy/runtime/time/clock.ts";
import { durationMs } from "../../../../../deploy/runtime/time/clock.ts";
import type { Event, Finished } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { promptBytes } from "../../boundary-hashes.ts";
import { CacheReasons } from "../../cache-reasons.ts";
import type { Candidates } from "../../endpoint-set.ts";
import type { NoteSink, PickObserver, Policy, PolicyParts, PolicyPick, PolicyRow } from "../../policy.ts";
import type { PrefixIndex, SentPrompt } from "../../prefix-index.ts";
import type { Route } from "../../route.ts";
import type { WorkLedger } from "../../work-ledger.ts";
import { PrefixLearning } from "./prefix-learning.ts";
import { conversationOf, type Prediction, pickPrefixAffinity } from "./prefix-score.ts";

/** The policy that sends a prompt to the endpoint with most of it cached, by announced and by sent prefixes. */
export const prefixAffinity: PolicyRow = {
  summary: "the endpoint that will have prefilled the prompt first.",
  create: (parts) => new PrefixAffinity(parts),
};

/** The milliseconds for which an engine is believed to keep a prefix after its last use; a request may set others. */
const BELIEVED_MS = 3_600_000;
/**
 * The share of the expected cached tokens below which the measured ones refute the belief behind the expectation. Engines
 * cache whole blocks and templates add tokens, so a true belief is seldom met to the token; behind a false one little more
 * than a shared head is cached.
 */
const REFUTING_SHARE = 0.5;

class PrefixAffinity implements Policy {
  readonly #parts: PolicyParts;
  readonly #learning = new PrefixLearning();
  readonly #reasons: CacheReasons;

  constructor(parts: PolicyParts) {
    this.#parts = parts;
    this.#reasons = new CacheReasons(parts.prefixes);
  }

  pick(candidates: Candidates, route: Route, nowMs: number): PolicyPick | undefined {
    const { prefixes: index, random, work, clock } = this.#parts;
    const learning = this.#learning;
    const found = pickPrefixAffinity(candidates, route, { index, learned: learning, nowMs, random });
    if (!found) return undefined;
    const { endpoint, prediction } = found;
    const parts = { index, learning, reasons: this.#reasons, work, clock };
    const observer = new PrefixObserver(route, endpoint.address, prediction, parts);
    return { endpoint, uncachedTokens: prediction.uncachedTokens, observer };
  }

  expectedTokens({ shape }: Route): number {
    return promptBytes(shape) * this.#learning.tokensPerByte;
  }

  forget(address: string): void {
    this.#parts.prefixes.forget(address);
    this.#learning.forget(address);
  }
}

type ObserverParts = {
  readonly index: PrefixIndex;
  readonly learning: PrefixLearning;
  readonly reasons: CacheReasons;
  readonly work: WorkLedger;
  readonly clock: Clock;
};

/** Follows a prompt to an endpoint: the expectation of the pick, corrected by the engine's events. */
class PrefixObserver implements PickObserver {
  readonly #route: Route;
  readonly #address: string;
  readonly #prediction: Prediction;
  readonly #parts: ObserverParts;
  readonly #ttlMs: number;
  /** The tokens that are still to be prefilled, as counted in the ledger. */
  #outstanding = 0;
  #sent: SentPrompt | undefined;
  #inputTokens = 0;
  #cachedTokens: number | undefined;
  #prefilled = false;
  #isElsewhere = false;

  constructor(route: Route, address: string, prediction: Prediction, parts: ObserverParts) {
    this.#route = route;
    this.#address = address;
    this.#prediction = prediction;
    this.#parts = parts;
    this.#ttlMs = route.ttlMs ?? BELIEVED_MS;
  }

  get heldUpTo(): number | undefined {
    return this.#prediction.part?.index;
  }

  /** Adds the prompt to the endpoint's work, and to the index: its prefix will be in the cache there. */
  begin(): void {
    const { index, learning, clock } = this.#parts;
    const { shape, affinityKey } = this.#route;
    const { tokensPerByte } = learning;
    const nowMs = clock.nowMs();
    learning.picked(conversationOf(shape, affinityKey), this.#address, nowMs);
    this.#sent = index.sent(shape, this.#address, { tokensPerByte, ttlMs: this.#ttlMs, nowMs });
    this.#remain(this.#prediction.uncachedTokens);
  }

  /** A prompt that another node reads is no work of this endpoint's: its ledger has 0 for it meanwhile. */
  readElsewhere(is: boolean): void {
    this.#isElsewhere = is;
    this.#remain(this.#prediction.uncachedTokens);
  }

  see(events: readonly Event[], notes?: NoteSink): void {
    for (const { kind } of events) {
      if (kind?.$case === "finished") {
        this.#settle();
        this.#finish(kind.value, notes);
      } else if (this.#prefilled) continue;
      else if (kind?.$case === "started") {
        const { inputTokens, cachedInputTokens } = kind.value;
        this.#inputTokens = inputTokens;
        this.#remain(inputTokens - (cachedInputTokens ?? 0));
        this.#measured(inputTokens, cachedInputTokens, notes);
      } else if (kind?.$case === "progress") {
        const { prefilledTokens } = kind.value;
        // Nodes beside another engine estimate it before the engine says anything; 0 while the prompt waits.
        const tokens = this.#inputTokens || (prefilledTokens > 0 ? this.#prediction.tokens : 0);
        if (tokens > 0) this.#remain(tokens - prefilledTokens);
      } else if (kind?.$case === "blockStarted" || kind?.$case === "blockDelta") this.#settle();
    }
  }

  /** Removes the prompt from the endpoint's work. Idempotent. */
  end(): void {
    this.#remain(0);
    if (!this.#prefilled && this.#sent) this.#sent.state = "withdrawn";
  }

  #remain(tokens: number): void {
    const before = this.#outstanding;
    this.#outstanding = this.#isElsewhere ? 0 : Math.max(0, tokens);
    this.#parts.work.change(this.#address, this.#outstanding - before);
  }

  /** Explains the cached tokens, at the engine's first report of them: some engines report them only at the end. */
  #measured(inputTokens: number, cachedTokens: number | undefined, notes?: NoteSink): void {
    // Those of a prompt that was read elsewhere were cached there.
    if (cachedTokens === undefined || this.#cachedTokens !== undefined || this.#isElsewhere) return;
    this.#cachedTokens = cachedTokens;
    const expectedTokens = this.#prediction.cachedTokens;
    const prompt = { ...this.#route, address: this.#address, sent: this.#sent, expectedTokens };
    const { reasons, clock } = this.#parts;
    notes?.cached(reasons.explain(prompt, inputTokens, cachedTokens, clock.nowMs()));
  }

  /** Records that the endpoint has prefilled the prompt: a belief that the measurement refutes goes. */
  #settle(): void {
    if (this.#prefilled) return;
    this.#prefilled = true;
    this.#remain(0);
    const { index } = this.#parts;
    const { part } = this.#prediction;
    const isBelief = part?.usedAtMs !== undefined && part.prefilled;
    if (isBelief && (this.#cachedTokens ?? Infinity) < REFUTING_SHARE * part.tokens)
      index.evicted(this.#address, part.usedAtMs);
    this.#used();
  }

  /** Records a use of the prefilled prompt, with its final number of tokens where that is known. */
  #used(): void {
    const sent = this.#sent;
    if (!sent) return;
    const nowMs = this.#parts.clock.nowMs();
    const bytes = promptBytes(this.#route.shape);
    if (sent.state !== "prefilled") sent.usedAtMs = nowMs;
    sent.state = "prefilled";
    sent.expiresAtMs = nowMs + this.#ttlMs;
    if (bytes > 0 && this.#inputTokens > 0) sent.tokensPerByte = this.#inputTokens / bytes;
  }

  /**
   * Learns from a finished call. Engines that do not separate queue time from prefill time yield no speed. The next
   * turn finds the answer behind the prompt, unless it begins with reasoning, which is left out of the history.
   */
  #finish({ usage, timings }: Finished, notes?: NoteSink): void {
    if (!usage) return;
    const { inputTokens, cachedInputTokens, outputTokens, reasoningTokens } = usage;
    this.#measured(inputTokens, cachedInputTokens, notes);
    if (inputTokens > 0) this.#inputTokens = inputTokens;
    this.#used();
    this.#parts.learning.answered(this.#inputTokens, promptBytes(this.#route.shape), outputTokens);
    if (this.#sent) this.#sent.answerTokens = reasoningTokens > 0 ? 0 : outputTokens;
    if (timings?.queue && timings.prefill)
      this.#parts.work.measured(this.#address, inputTokens - cachedInputTokens, durationMs(timings.prefill));
  }
}
