import { randomUUID } from "node:crypto";
import { sleep } from "../../../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import { GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../../../errors.ts";
import { HeldPrefixes, type KvTokens } from "../../../prefixes/held-prefixes.ts";
import type { PrefixMark } from "../../../prefixes/prefix-marks.ts";
import { throwIfLeft } from "../../caller-left.ts";
import type { RequestSettings } from "../request/request.ts";
import type { LedgerPrompt } from "../watch/prompt-ledger.ts";
import type { RankCache } from "./block-tree.ts";
import { EngineBlocks } from "./engine-blocks.ts";
import { EventFeed, loadZmq } from "./event-feed.ts";
import { tiesOf } from "./prompt-ties.ts";
import { chainHashes } from "./token-chain.ts";

/** The longest wait for the events of the test request, in milliseconds. */
const CONFIRM_MS = 10_000;
const CONFIRM_STEP_MS = 50;
/**
 * The words in the test requests, at most a quarter of the context window: more than two blocks of any usual size, and,
 * where those fill none, of a hybrid model, whose blocks may have 2,000 tokens.
 */
const CONFIRM_WORDS = [400, 5_000];

export type KvEventsOptions = {
  /** The ZeroMQ endpoint of the first rank. */
  readonly endpoint: string;
  /** Whether the node listens at that endpoint and the engine connects to it. */
  readonly listen: boolean;
  /** The ZeroMQ endpoint from which the first rank replays batches; undefined for none. */
  readonly replayEndpoint?: string | undefined;
  /** The number of data-parallel ranks; each has the next port. */
  readonly ranks: number;
};

/** A prompt in the engine's blocks. */
export type FollowedPrompt = {
  /** What each rank holds of it. */
  readonly ranks: readonly RankCache[];
  /** Whether the engine's findings have agreed with its events so far. */
  readonly isTrusted: boolean;
  /** Compares what its rank found of it with the events. */
  answered(foundTokens: number, prompt: Pick<LedgerPrompt, "rank" | "isAlone">): void;
};

export type EngineCacheParts = {
  readonly options: KvEventsOptions;
  readonly clock: Clock;
  /** Returns the KV tokens that the engine reports; 0 if not reported. */
  readonly kvTokens: () => KvTokens;
};

export type SentPrompt = Pick<GenerateRequest, "model" | "messages"> & {
  readonly marks: readonly PrefixMark[];
  readonly salt: string;
  readonly tokens: readonly number[];
};

/**
 * Tracks the prefix cache of the engine beside the node through the engine's KV events, and maps it to the digests of
 * requests.
 */
export class EngineCache {
  readonly #parts: EngineCacheParts;
  #blocks: EngineBlocks | undefined;
  #feeds: readonly EventFeed[] = [];
  /** Whether the engine's events contain salts, so that prompts of different tenants are distinct. */
  #isSalted = true;
  #confirming: { tokens: readonly number[] | undefined; salt: string } | undefined;
  #isConfirmed = false;
  readonly held: HeldPrefixes;

  constructor(parts: EngineCacheParts) {
    this.#parts = parts;
    this.held = new HeldPrefixes(() => {
      const { used, total } = parts.kvTokens();
      return { used: Math.max(used, this.#blocks?.tokens ?? 0), total };
    });
  }

  /** The idle time of recently evicted blocks, in seconds; undefined if it is not known. */
  get retentionSeconds(): number | undefined {
    const { retentionMs } = this.#blocks ?? {};
    return this.#isConfirmed && retentionMs !== undefined ? retentionMs / 1_000 : undefined;
  }

  /** Whether events have arrived and match the engine's prompts. */
  get isConfirmed(): boolean {
    return this.#isConfirmed;
  }

  /**
   * Connects to the engine's events. Throws `EngineError` ENGINE_DOWN if the required package cannot be loaded, or if
   * the node cannot listen at the endpoint.
   */
  async open({ dialect }: Pick<RequestSettings, "dialect">): Promise<void> {
    const { options } = this.#parts;
    const zmq = await loadZmq();
    const nowMs = () => this.#parts.clock.nowMs();
    const blocks = new EngineBlocks(this.held, { counts: dialect.countsBlockCopies, ranks: options.ranks, nowMs });
    this.#blocks = blocks;
    this.#feeds = Array.from({ length: options.ranks }, (_, rank) => {
      const endpoint = endpointOf(options.endpoint, rank);
      const replayEndpoint = options.replayEndpoint && endpointOf(options.replayEndpoint, rank);
      const sink = {
        take: (events: Parameters<EngineBlocks["take"]>[1]) => blocks.take(rank, events),
        forget: () => blocks.forget(rank),
      };
      return new EventFeed(zmq, { endpoint, listen: options.listen, replayEndpoint }, sink);
    });
    await Promise.all(this.#feeds.map((feed) => feed.open())).catch((cause: unknown) => {
      throw new EngineError("ENGINE_DOWN", "backend.kvEvents.endpoint: the node cannot listen there.", {}, cause);
    });
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
      const untilMs = this.#parts.clock.nowMs() + CONFIRM_MS;
      while (!this.#fits() && this.#parts.clock.nowMs() < untilMs) {
        await sleep(this.#parts.clock, CONFIRM_STEP_MS, signal);
        throwIfLeft(signal);
      }
      if (this.#blocks?.blockTokens) break;
    }
    this.#isConfirmed = this.#fits();
    const why = this.#isConfirmed ? undefined : this.#reason();
    this.#confirming = undefined;
    if (!this.#isConfirmed) this.close();
    return why;
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
    const hashes = chainHashes(tokens, blockTokens, this.#isSalted ? salt : "");
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
    const lastOf = (extra: string) => chainHashes(tokens, blocks.blockTokens, extra).at(-1);
    this.#isSalted = blocks.holds(lastOf(salt ?? ""));
    return this.#isSalted || blocks.holds(lastOf(""));
  }

  #reason(): string {
    const not = "Cached prefixes are not reported:";
    if (!this.#blocks?.blockTokens) return `${not} the engine sends no KV events of blocks with full attention.`;
    return `${not} the engine's KV events do not match its prompts.`;
  }
}

/** Returns the endpoint of a rank: ranks use consecutive ports. */
function endpointOf(endpoint: string, rank: number): string {
  return rank === 0 ? endpoint : endpoint.replace(/\d+$/, (port) => String(Number(port) + rank));
}

function confirmRequest(words: number): GenerateRequest {
  const text = `${randomUUID()} ${"once more ".repeat(words / 2)}`;
  const says = (role: Role, words: string): Message => ({
    role,
    parts: [{ kind: { $case: "text", value: { text: words } } }],
  });
  return {
    ...GenerateRequest.fromPartial({ sampling: { temperature: 0 }, maxOutputTokens: 1, tenant: randomUUID() }),
    messages: [says(Role.SYSTEM, text), says(Role.USER, "Say yes.")],
  };
}

function hasImage({ parts }: Message): boolean {
  return parts.some(({ kind }) => {
    if (kind?.$case === "toolResult") return kind.value.content.some((part) => part.kind?.$case === "image");
    return kind?.$case === "image";
  });
}
