import { randomUUID } from "node:crypto";
import { sleep } from "../../../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import { GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { says, textPart } from "../../../conversation/history/model-history.ts";
import { throwIfLeft } from "../../../errors.ts";
import { HeldPrefixes, type KvTokens } from "../../../prefixes/held-prefixes.ts";
import type { PrefixMark } from "../../../prefixes/prefix-marks.ts";
import type { EngineDialect } from "../engines/engine-dialect.ts";
import type { LedgerPrompt } from "../watch/prompt-ledger.ts";
import type { RankCache } from "./block-tree.ts";
import { EngineBlocks } from "./engine-blocks.ts";
import { EventFeed, type FeedAddress, loadZmq } from "./event-feed.ts";
import { tiesOf } from "./prompt-ties.ts";

/** The longest wait for the events of the test request, in milliseconds. */
const CONFIRM_MS = 10_000;
const CONFIRM_STEP_MS = 50;
/**
 * The words in the test requests, at most a quarter of the context window: more than two blocks of any usual size, and,
 * where those fill none, of a hybrid model, whose blocks may have 2,000 tokens.
 */
const CONFIRM_WORDS = [400, 5_000];

const NOT = "Cached prefixes are not reported:";

export type FollowedPrompt = {
  readonly ranks: readonly RankCache[];
  /** Whether the engine's findings have agreed with its events so far. */
  readonly isTrusted: boolean;
  /** Compares what its rank found of it with the events. */
  answered(foundTokens: number, prompt: Pick<LedgerPrompt, "rank" | "isAlone">): void;
};

export type SentPrompt = Pick<GenerateRequest, "model" | "messages"> & {
  readonly marks: readonly PrefixMark[];
  readonly salt: string;
  readonly tokens: ArrayLike<number>;
};

/** Tracks the engine's prefix cache through its KV events, and maps it to the digests of requests. */
export class EngineCache {
  readonly #clock: Clock;
  #blocks: EngineBlocks | undefined;
  #feeds: readonly EventFeed[] = [];
  /** Whether the engine's events contain salts, so that prompts of different tenants are distinct. */
  #isSalted = true;
  #confirming: { tokens: ArrayLike<number> | undefined; salt: string } | undefined;
  /** Whether events have arrived and match the engine's prompts. */
  #isConfirmed = false;
  readonly held: HeldPrefixes;

  /** `kvTokens` returns the KV tokens that the engine reports; 0 if not reported. */
  constructor(clock: Clock, kvTokens: () => KvTokens) {
    this.#clock = clock;
    this.held = new HeldPrefixes(() => {
      const { used, total } = kvTokens();
      return { used: Math.max(used, this.#blocks?.tokens ?? 0), total };
    });
    this.held.withhold();
  }

  /** The idle time of recently evicted blocks, in seconds; undefined if it is not known. */
  get retentionSeconds(): number | undefined {
    const { retentionMs } = this.#blocks ?? {};
    return this.#isConfirmed && retentionMs !== undefined ? retentionMs / 1_000 : undefined;
  }

  get ranks(): number {
    return this.#feeds.length;
  }

  /** Resolves to the reason why the events cannot be read, as a sentence; undefined if they can. */
  async open(sources: readonly FeedAddress[], { countsBlockCopies }: EngineDialect): Promise<string | undefined> {
    const zmq = await loadZmq();
    if (!zmq) return `${NOT} the package zeromq has no binary for this machine.`;
    const nowMs = () => this.#clock.nowMs();
    const blocks = new EngineBlocks(this.held, { counts: countsBlockCopies, ranks: sources.length, nowMs });
    this.#blocks = blocks;
    this.#feeds = sources.map((source, rank) => {
      const sink = {
        take: (events: Parameters<EngineBlocks["take"]>[1]) => blocks.take(rank, events),
        forget: () => blocks.forget(rank),
      };
      return new EventFeed(zmq, source, sink);
    });
    try {
      await Promise.all(this.#feeds.map((feed) => feed.open()));
      return undefined;
    } catch {
      this.close();
      return `${NOT} the node cannot listen where the engine sends its KV events.`;
    }
  }

  /**
   * Tests the events with a request, which `ask` sends to the engine. Resolves to the reason why they cannot be used,
   * as a sentence; undefined if they can. Prefixes are reported only after a successful test.
   */
  async confirm(
    contextWindow: number,
    ask: (request: GenerateRequest) => Promise<unknown>,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    this.#confirming = { tokens: undefined, salt: "" };
    for (const words of CONFIRM_WORDS) {
      await ask(confirmRequest(Math.min(words, Math.floor(contextWindow / 4) || words)));
      const untilMs = this.#clock.nowMs() + CONFIRM_MS;
      while (!this.#fits() && this.#clock.nowMs() < untilMs) {
        await sleep(this.#clock, CONFIRM_STEP_MS, signal);
        throwIfLeft(signal);
      }
      if (this.#blocks?.blockTokens) break;
    }
    this.#isConfirmed = this.#fits();
    this.#confirming = undefined;
    if (this.#isConfirmed) {
      this.held.announce();
      return undefined;
    }
    const hasBlocks = (this.#blocks?.blockTokens ?? 0) > 0;
    this.close();
    if (!hasBlocks) return `${NOT} the engine sends no KV events of blocks with full attention.`;
    return `${NOT} the engine's KV events do not match its prompts.`;
  }

  /**
   * Tracks a request before it is sent: maps its digests to the tokens of its prompt. Returns what each rank holds of it;
   * undefined if that is not known.
   */
  follow({ model, messages, marks, salt, tokens: prompt }: SentPrompt): FollowedPrompt | undefined {
    if (this.#confirming) Object.assign(this.#confirming, { tokens: prompt, salt });
    const blocks = this.#blocks;
    if (!blocks || !this.#isConfirmed) return undefined;
    const { blockTokens } = blocks;
    const tokens = Uint32Array.from(prompt);
    const hashes = blocks.hashesOf(tokens, this.#isSalted ? salt : "");
    const ranks = blocks.cached(hashes);
    // Tokens do not identify an image.
    const isKnown = !messages.some(hasImage);
    if (isKnown && marks.length > 0) {
      blocks.used({ tokens, hashes });
      blocks.tie(tiesOf({ model, marks, tokens, hashes, blockTokens }, blocks));
    }
    const answered: FollowedPrompt["answered"] = (found, { rank = 0, isAlone }) => {
      const tokensOf = (parts: readonly RankCache[]) => parts[rank]?.tokens ?? 0;
      const [before, after] = [tokensOf(ranks), tokensOf(blocks.cached(hashes))];
      if (isKnown) this.held.found({ before, after, found, isAlone, blockTokens });
    };
    return { ranks, isTrusted: this.held.isAnnounced, answered };
  }

  close(): void {
    this.#isConfirmed = false;
    for (const feed of this.#feeds) feed.close();
    for (const rank of this.#feeds.keys()) this.#blocks?.forget(rank);
  }

  /** Returns whether the test prompt is among the reported blocks. */
  #fits(): boolean {
    const { tokens, salt } = this.#confirming ?? {};
    const blocks = this.#blocks;
    if (!tokens || !blocks || blocks.blockTokens === 0) return false;
    const lastOf = (extra: string) => blocks.hashesOf(tokens, extra).at(-1);
    this.#isSalted = blocks.holds(lastOf(salt ?? ""));
    return this.#isSalted || blocks.holds(lastOf(""));
  }
}

function confirmRequest(words: number): GenerateRequest {
  const text = `${randomUUID()} ${"once more ".repeat(words / 2)}`;
  return {
    ...GenerateRequest.fromPartial({ sampling: { temperature: 0 }, maxOutputTokens: 1, tenant: randomUUID() }),
    messages: [says(Role.SYSTEM, textPart(text)), says(Role.USER, textPart("Say yes."))],
  };
}

function hasImage({ parts }: Message): boolean {
  return parts.some(({ kind }) => {
    if (kind?.$case === "toolResult") return kind.value.content.some((part) => part.kind?.$case === "image");
    return kind?.$case === "image";
  });
}
