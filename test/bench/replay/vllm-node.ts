import { LastTurns } from "../../../engine/backends/openai-compatible/watch/last-turns.ts";
import { PromptLedger } from "../../../engine/backends/openai-compatible/watch/prompt-ledger.ts";
import { AnnouncementCheck } from "../../../engine/prefixes/announcement-check.ts";
import type { EventQueue } from "./event-queue.ts";
import type { RankedNode } from "./ranked-node.ts";
import type { Job, NodeReport } from "./replay-node.ts";
import type { Follower } from "./router.ts";
import type { Prompt } from "./traffic.ts";

/** The interval at which a node reads its engine's metrics, in milliseconds; progress is reported as often. */
const POLL_MS = 1_000;
/** What each prompt costs beside its prefill, in milliseconds: steps, transport, sampling. */
const BESIDE_MS = 50;
/** The weight of the newest answer in the measured speed of decoding. */
const NEWEST = 0.2;
const BLOCK_TOKENS = 16;

export type VllmNodeParts = {
  readonly time: EventQueue;
  readonly engine: Pick<RankedNode, "report">;
  /** The engine's KV events; undefined without them. */
  readonly events: { cachedTokens(prompt: Prompt): number; retentionMs(): number | undefined } | undefined;
};

/**
 * A node beside vLLM, in virtual time: its reports are the engine's counts, polled, and the product's own ledger and
 * measurements. It does not know when the engine begins a prompt, how much of it is read, nor before the answer ends
 * how much of it was cached.
 */
export class VllmNode {
  readonly #parts: VllmNodeParts;
  readonly #ledger: PromptLedger;
  readonly #check = new AnnouncementCheck();
  readonly #turns = new LastTurns();
  #decodeTokensPerSecond: number | undefined;
  #polled: Pick<NodeReport, "running" | "waiting" | "kvUse">;

  constructor(parts: VllmNodeParts) {
    this.#parts = parts;
    this.#ledger = new PromptLedger(() => parts.time.nowMs());
    this.#polled = parts.engine.report;
    this.#poll();
  }

  get report(): NodeReport {
    return {
      ...this.#polled,
      queuedUncachedTokens: this.#ledger.unreadTokens,
      retentionMs: this.#parts.events?.retentionMs(),
      prefillTokensPerSecond: this.#ledger.speed.tokensPerSecond,
      decodeTokensPerSecond: this.#decodeTokensPerSecond,
    };
  }

  /** Whether the node announces its prefixes: not while the engine contradicts its events. */
  get isAnnounced(): boolean {
    return this.#check.isTrusted;
  }

  /** Returns a job whose follower gets what such a node says, and whose finding is held against the events. */
  followed(job: Job, follower: Follower | undefined): Job {
    const { time, events } = this.#parts;
    const { prompt } = job;
    const { tokens } = prompt;
    const before = events?.cachedTokens(prompt);
    const marks = prompt.shape.boundaries.map(({ hash: digest }, messages) => ({ digest, messages }));
    const heldTokens = (this.isAnnounced ? before : undefined) ?? this.#turns.cachedTokens("", marks) ?? 0;
    const reading = this.#ledger.sent({ tokens, cachedTokens: Math.min(tokens, heldTokens) });
    let found = 0;
    let firstTokenMs = 0;
    const reportProgress = () => {
      if (isRead) return;
      follower?.progress?.(reading.readTokens);
      time.after(POLL_MS, reportProgress);
    };
    let isRead = false;
    time.after(POLL_MS, reportProgress);
    return {
      ...job,
      onStarted: (cachedTokens) => {
        found = cachedTokens;
        job.onStarted(cachedTokens);
      },
      onProgress: job.onProgress,
      onFirstToken: () => {
        isRead = true;
        firstTokenMs = time.nowMs();
        reading.read();
        job.onFirstToken();
        follower?.started(undefined);
        follower?.firstToken();
      },
      onFinished: (prefillMs) => {
        const { queueMs, prefillMs: measuredMs } = reading.times;
        this.#ledger.speed.add({
          uncachedTokens: tokens - found,
          seconds: (measuredMs + BESIDE_MS) / 1_000,
          queueSeconds: queueMs === undefined ? undefined : queueMs / 1_000,
        });
        this.#decoded(prompt.outputTokens, time.nowMs() - firstTokenMs);
        this.#turns.answered("", marks, tokens, found);
        if (events && before !== undefined) {
          const after = events.cachedTokens(prompt);
          this.#check.take({ before, after, found, isAlone: reading.isAlone, blockTokens: BLOCK_TOKENS });
        }
        follower?.finished(measuredMs + BESIDE_MS, { queueMs, cachedTokens: found });
        job.onFinished(prefillMs);
      },
    };
  }

  #decoded(tokens: number, ms: number): void {
    const speed = (1_000 * tokens) / Math.max(1, ms);
    const before = this.#decodeTokensPerSecond ?? speed;
    this.#decodeTokensPerSecond = before + NEWEST * (speed - before);
  }

  #poll(): void {
    const { running, waiting, kvUse } = this.#parts.engine.report;
    this.#polled = { running, waiting, kvUse };
    this.#parts.time.after(POLL_MS, () => this.#poll());
  }
}
