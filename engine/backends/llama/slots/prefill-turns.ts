/** Context length, in embedding sizes, at which attention takes as long as all other operations (measured on a CPU). */
const EVEN_CONTEXT = 3;

/** Returns the cost of a token behind `before` others; a token at the start of a context costs 1. */
type TokenCost = (before: number) => number;

export function tokenCost(embeddingSize: number): TokenCost {
  return (before) => 1 + before / (EVEN_CONTEXT * embeddingSize);
}

/**
 * The least tokens of a chunk. llama.cpp computes the attention of fewer on a CPU one by one: 6,000 tokens into a context,
 * 16 take as long as 64.
 */
const MIN_CHUNK_TOKENS = 64;
/** A rest of a prompt that costs this many tokens at the start of a context is read in one chunk. */
const SHORT_TOKENS = 32;
/** The target time of a chunk beside other requests, in milliseconds: each token of a stream comes so much later. */
const PIECE_MS = 40;
/** How much larger a chunk may be while no other request runs: one may arrive at any moment. */
const ALONE = 2;
/** The bounds of the factor by which one measurement changes the step size. */
const MAX_GROWTH = 1.25;
const MAX_CUT = 0.25;

/** The weight of a new measurement of the batches without chunks. */
const LIGHT_WEIGHT = 0.25;

export type PromptReading = {
  expect(read: number): void;
  /** Resolves to the tokens of the next chunk, in the prompt's turn, which its evaluation or end passes on. */
  nextPiece(): Promise<number>;
  evaluated(tokens: number): void;
  /** Further calls do nothing. */
  end(): void;
  close(): void;
};

/** A batch that llama.cpp has computed: the chunks of prompts, by the tokens before them, and whether others rode along. */
export type EvaluatedBatch = {
  readonly chunks: readonly { readonly before: number; readonly tokens: number }[];
  readonly hasStreams: boolean;
  readonly ms: number;
};

type Progress = {
  left: number;
  read: number;
  /** Grants the turn that is waited for. */
  grant?: (() => void) | undefined;
};

/**
 * Sizes the prefill chunks. A batch has one, as llama.cpp computes each in a pass of its own: tenants take turns, and so
 * do the prompts of one tenant. Beside other requests a chunk adds about 40 ms to a batch by earlier measurements, alone
 * twice that; a short prompt is read in one chunk, without a turn.
 */
export class PrefillTurns {
  readonly #batchTokens: number;
  readonly #tokenCost: TokenCost;
  /** By tenant; the next turns come first. */
  readonly #reading = new Map<string, Set<Progress>>();
  #reader: Progress | undefined;
  #slots = 0;
  unread = 0;
  /** The cost of a chunk that takes `PIECE_MS`, at first a guess. */
  #stepCost = MIN_CHUNK_TOKENS;
  /** The time of a batch without chunks, in milliseconds. */
  #lightMs = 0;

  constructor(batchTokens: number, tokenCost: TokenCost) {
    this.#batchTokens = batchTokens;
    this.#tokenCost = tokenCost;
  }

  /** The prompt has `tokens`, `read` of them cached. The caller closes the result. */
  begin(name: string, tokens: number, read = 0): PromptReading {
    const mine = this.#reading.get(name) ?? new Set();
    this.#reading.set(name, mine);
    const progress: Progress = { left: tokens - read, read };
    mine.add(progress);
    this.#slots += 1;
    this.unread += progress.left;
    let isOpen = true;
    const advance = (count: number) => {
      progress.read += count;
      progress.left -= count;
      this.unread -= count;
    };
    const end = () => {
      if (!mine.delete(progress)) return;
      if (mine.size === 0) this.#reading.delete(name);
      this.unread -= progress.left;
      this.#passOn(progress);
    };
    return {
      expect: (now) => advance(now - progress.read),
      nextPiece: async () => {
        if (this.#isShort(progress)) return progress.left;
        if (this.#reader === undefined) this.#reader = progress;
        else
          await new Promise<void>((resolve) => {
            progress.grant = resolve;
          });
        return this.#pieceOf(progress);
      },
      evaluated: (count) => {
        advance(count);
        if (this.#reader !== progress) return;
        mine.delete(progress);
        mine.add(progress);
        this.#reading.delete(name);
        this.#reading.set(name, mine);
        this.#passOn(progress);
      },
      end,
      close: () => {
        end();
        if (!isOpen) return;
        isOpen = false;
        this.#slots -= 1;
      },
    };
  }

  #passOn(from: Progress): void {
    if (this.#reader !== from) return;
    this.#reader = undefined;
    for (const prompts of this.#reading.values())
      for (const progress of prompts) {
        if (!progress.grant) continue;
        this.#reader = progress;
        progress.grant();
        progress.grant = undefined;
        return;
      }
  }

  #isShort({ left, read }: Progress): boolean {
    return left * this.#tokenCost(read) <= SHORT_TOKENS;
  }

  #pieceOf({ left, read }: Progress): number {
    const tokens = Math.max(MIN_CHUNK_TOKENS, Math.floor(this.#stepCost / this.#tokenCost(read)));
    return Math.min(left, this.#batchTokens, this.#slots > 1 ? tokens : ALONE * tokens);
  }

  /** Learns from the time of a batch what its chunks add to one without them. */
  learn({ chunks, hasStreams, ms }: EvaluatedBatch): void {
    if (chunks.length === 0) {
      this.#lightMs += (ms - this.#lightMs) * (this.#lightMs === 0 ? 1 : LIGHT_WEIGHT);
      return;
    }
    const cost = chunks.reduce((sum, { before, tokens }) => sum + tokens * this.#tokenCost(before), 0);
    // The time of a much smaller step is mostly constant overhead, and does not predict that of a full one.
    if (cost < this.#stepCost / 2) return;
    const addedMs = hasStreams ? ms - this.#lightMs : ms;
    const change = Math.min(MAX_GROWTH, Math.max(MAX_CUT, PIECE_MS / Math.max(1, addedMs)));
    const learned = (this.#stepCost + cost * change) / 2;
    const most = this.#batchTokens * Math.max(...chunks.map(({ before }) => this.#tokenCost(before)));
    this.#stepCost = Math.min(most, Math.max(MIN_CHUNK_TOKENS, learned));
  }
}
