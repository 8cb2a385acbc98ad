import { randomUUID } from "node:crypto";
import { sleep } from "../../../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import { GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../../../errors.ts";
import { HeldPrefixes, type KvTokens } from "../../../prefixes/held-prefixes.ts";
import { type PrefixMark, prefixMarks } from "../../../prefixes/prefix-marks.ts";
import { throwIfLeft } from "../../caller-left.ts";
import { asking } from "../generation/generation-parts.ts";
import type { EngineHttp } from "../http/engine-http.ts";
import { type RequestSettings, toChatPrompt } from "../request/request.ts";
import { EngineBlocks } from "./engine-blocks.ts";
import { EventFeed, loadZmq } from "./event-feed.ts";
import { PlaceFinder } from "./place-finder.ts";
import { type ReadPrompt, tiesOf } from "./prompt-ties.ts";
import { chainHashes } from "./token-chain.ts";

/** The longest wait for the events of the test request, in milliseconds. */
const CONFIRM_MS = 10_000;
const CONFIRM_STEP_MS = 50;
/** The words in the test request: more than two blocks of any usual size. */
const CONFIRM_WORDS = 400;

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
  /** The tokens that the engine holds of it; undefined while the engine contradicts its events. */
  readonly cachedTokens: number | undefined;
  /** Compares what the engine found of it with its events. `isAlone`: it had no other prompt to read. */
  answered(foundTokens: number, isAlone: boolean): void;
};

export type EngineCacheParts = {
  readonly options: KvEventsOptions;
  readonly http: EngineHttp;
  readonly countTimeoutMs: number;
  readonly clock: Clock;
  /** Returns the KV tokens that the engine reports; 0 if not reported. */
  readonly kvTokens: () => KvTokens;
};

/**
 * Tracks the prefix cache of the engine beside the node through the engine's KV events, and maps it to the digests of
 * requests.
 */
export class EngineCache {
  readonly #parts: EngineCacheParts;
  readonly #closing = new AbortController();
  #blocks: EngineBlocks | undefined;
  #places: PlaceFinder | undefined;
  #settings: RequestSettings | undefined;
  #feeds: readonly EventFeed[] = [];
  /** Whether the engine's events contain salts, so that prompts of different tenants are distinct. */
  #isSalted = true;
  #confirming: { tokens: Uint32Array | undefined; salt: string } | undefined;
  #isConfirmed = false;
  readonly held: HeldPrefixes;

  constructor(parts: EngineCacheParts) {
    this.#parts = parts;
    this.held = new HeldPrefixes(() => {
      const { used, total } = parts.kvTokens();
      return { used: Math.max(used, this.#blocks?.tokens ?? 0), total };
    });
  }

  /** Whether events have arrived and match the engine's prompts. */
  get isConfirmed(): boolean {
    return this.#isConfirmed;
  }

  /**
   * Connects to the engine's events. Throws `EngineError` ENGINE_DOWN if the required package cannot be loaded, or if
   * the node cannot listen at the endpoint.
   */
  async open(settings: RequestSettings): Promise<void> {
    const { options, clock } = this.#parts;
    const { dialect } = settings;
    const zmq = await loadZmq();
    const blocks = new EngineBlocks(this.held, dialect.countsBlockCopies);
    this.#settings = settings;
    this.#blocks = blocks;
    this.#places = new PlaceFinder(clock, (request) => this.#render(request, this.#settings ?? settings));
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
    settings: RequestSettings,
    ask: (request: GenerateRequest) => Promise<unknown>,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    this.#settings = settings;
    const confirming = { tokens: undefined, salt: "" };
    this.#confirming = confirming;
    await ask(confirmRequest());
    const untilMs = this.#parts.clock.nowMs() + CONFIRM_MS;
    while (!this.#fits() && this.#parts.clock.nowMs() < untilMs) {
      await sleep(this.#parts.clock, CONFIRM_STEP_MS, signal);
      throwIfLeft(signal);
    }
    this.#isConfirmed = this.#fits();
    const why = this.#isConfirmed ? undefined : this.#reason();
    this.#confirming = undefined;
    if (!this.#isConfirmed) this.close();
    return why;
  }

  /**
   * Tracks a request before it is sent: maps its digests to the tokens of its prompt. Returns what the engine holds of
   * it; undefined if that is not known.
   */
  follow(request: GenerateRequest, salt: string, tokens: readonly number[]): FollowedPrompt | undefined {
    const marks = prefixMarks(request);
    // Tokens do not identify an image.
    if (marks.length === 0 || request.messages.some(hasImage)) return undefined;
    if (!this.#confirming && !this.#isConfirmed) return undefined;
    return this.#read(request, marks, salt, Uint32Array.from(tokens));
  }

  close(): void {
    this.#isConfirmed = false;
    this.#closing.abort();
    this.#places?.close();
    for (const feed of this.#feeds) feed.close();
    for (const rank of this.#feeds.keys()) this.#blocks?.forget(rank);
  }

  #read(
    request: GenerateRequest,
    marks: readonly PrefixMark[],
    salt: string,
    tokens: Uint32Array,
  ): FollowedPrompt | undefined {
    if (this.#confirming) Object.assign(this.#confirming, { tokens, salt });
    const blocks = this.#blocks;
    if (!blocks || blocks.blockTokens === 0 || !this.#isConfirmed || blocks.isMixed) return undefined;
    const { blockTokens } = blocks;
    const hashes = chainHashes(tokens, blockTokens, this.#isSalted ? salt : "");
    const prompt: ReadPrompt = { model: request.model, marks, tokens, hashes, blockTokens };
    blocks.used({ tokens, hashes });
    const before = blocks.tokensOf(hashes);
    const followed: FollowedPrompt = {
      cachedTokens: this.held.isAnnounced ? before : undefined,
      answered: (found, isAlone) =>
        this.held.found({ before, after: blocks.tokensOf(hashes), found, isAlone, blockTokens }),
    };
    const found = new Map<string, number>();
    const tie = () => {
      const ties = tiesOf(prompt, (digest) => blocks.tieOf(digest), found);
      blocks.tie(ties);
      return marks.filter(({ digest }) => !ties.get(digest)?.isExact);
    };
    const unknown = tie();
    if (unknown.length === 0) return followed;
    const onFound = ({ digest }: PrefixMark, count: number) => {
      found.set(digest, count);
      tie();
    };
    this.#places?.find({ request, tokens, onFound }, unknown);
    return followed;
  }

  async #render(request: GenerateRequest, settings: RequestSettings): Promise<ArrayLike<number>> {
    const { http, countTimeoutMs } = this.#parts;
    const ask = asking(http, countTimeoutMs, this.#closing.signal);
    return (await settings.dialect.render(ask, toChatPrompt(request, settings))).tokens;
  }

  /** Returns whether the test prompt is among the reported blocks. */
  #fits(): boolean {
    const { tokens, salt } = this.#confirming ?? {};
    const blocks = this.#blocks;
    if (!tokens || !blocks || blocks.blockTokens === 0 || blocks.isMixed) return false;
    const lastOf = (extra: string) => chainHashes(tokens, blocks.blockTokens, extra).at(-1);
    this.#isSalted = blocks.holds(lastOf(salt ?? ""));
    return this.#isSalted || blocks.holds(lastOf(""));
  }

  #reason(): string {
    const not = "Cached prefixes are not reported:";
    if (!this.#blocks?.blockTokens) return `${not} the engine sends no KV events.`;
    if (this.#blocks.isMixed) return `${not} the engine's cache has blocks of more than one kind.`;
    return `${not} the engine's KV events do not match its prompts.`;
  }
}

/** Returns the endpoint of a rank: ranks use consecutive ports. */
function endpointOf(endpoint: string, rank: number): string {
  return rank === 0 ? endpoint : endpoint.replace(/\d+$/, (port) => String(Number(port) + rank));
}

function confirmRequest(): GenerateRequest {
  const text = `${randomUUID()} ${"once more ".repeat(CONFIRM_WORDS / 2)}`;
  const says = (role: Role, words: string): Message => ({
    role,
    parts: [{ kind: { $case: "text", value: { text: words } } }],
  });
  return {
    ...GenerateRequest.fromPartial({ sampling: { temperature: 0 }, maxOutputTokens: 1, tenant: randomUUID() }),
    messages: [says(Role.SYSTEM, text), says(Role.USER, "Say yes.")],
    prefixDigests: Buffer.alloc(32),
  };
}

function hasImage({ parts }: Message): boolean {
  return parts.some(({ kind }) => {
    if (kind?.$case === "toolResult") return kind.value.content.some((part) => part.kind?.$case === "image");
    return kind?.$case === "image";
  });
}
