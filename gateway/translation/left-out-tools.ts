import { LRUCache } from "lru-cache";
import type { MonotonicClock } from "../../deploy/runtime/time/clock.ts";
import { type PromptShape, promptBytes } from "../upstream/load-balancing/boundary-hashes.ts";
import { type EncodedRequest, headTools, withTools } from "../upstream/request/encoded-request.ts";

/** The most bytes of kept tools; those of one agent take 20 to 100 KB, and its conversations share them. */
const MAX_BYTES = 32 * 1024 * 1024;
/** The longest kept list of tools, in bytes. */
const MAX_LIST_BYTES = 1024 * 1024;
/** The milliseconds for which tools are kept after their last use: an agent compacts behind a turn. */
const KEPT_MS = 600_000;
/** The most conversations, some 300 bytes each. */
const MAX_CONVERSATIONS = 20_000;
/** The most conversations with the same first message, as sessions of one project may have. */
const MAX_ALIKE = 8;
/** The fewest tokens that must be left in the window for the answer, a summary. */
const ANSWER_TOKENS = 2_048;
/** The bytes of a token that is not counted yet: English has more, Chinese as many. */
const BYTES_PER_TOKEN = 3;

/** The last prompt of a conversation. */
export type LastPrompt = {
  /** The key of its tools. */
  readonly tools: string;
  /** The index and the digest of its last boundary. */
  readonly at: number;
  readonly end: string;
  readonly bytes: number;
  /** The tokens of the prompt and its answer, as the engine counted them; 0 until then. */
  tokens: number;
};

/** Tools that may have been left out of a prompt, and the last prompts that had them. */
export type LeftOut = { readonly tools: Uint8Array; readonly prompts: readonly LastPrompt[] };

/**
 * Keeps the tools of conversations for minutes, in memory only. Agents leave them out of the request that has their
 * conversation summarized, and templates write tools first: without them an engine finds nothing of its longest prompt.
 */
export class LeftOutTools {
  readonly #lists: LRUCache<string, Uint8Array>;
  readonly #prompts: LRUCache<string, readonly LastPrompt[]>;

  constructor(clock: MonotonicClock) {
    const age = { ttl: KEPT_MS, updateAgeOnGet: true, perf: { now: () => clock.nowMs() } };
    this.#lists = new LRUCache({ ...age, maxSize: MAX_BYTES, sizeCalculation: ({ byteLength }) => byteLength });
    // By size, as `max` would reserve the room of all entries at once.
    this.#prompts = new LRUCache({ ...age, maxSize: MAX_CONVERSATIONS, sizeCalculation: () => 1 });
  }

  /** Keeps the tools of a prompt. Returns the prompt, for the tokens of its answer; undefined where nothing is kept. */
  keep({ bytes, facts: { tenant, shape } }: EncodedRequest): LastPrompt | undefined {
    const { boundaries, opening } = shape;
    const outline = boundaries[0]?.tools;
    const last = boundaries.at(-1);
    if (!opening || !outline || !last) return undefined;
    const tools = `${tenant} ${outline}`;
    if (!this.#lists.get(tools)) {
      const list = headTools(bytes);
      if (list.byteLength > MAX_LIST_BYTES) return undefined;
      this.#lists.set(tools, list);
    }
    const prompt = { tools, at: boundaries.length - 1, end: last.hash, bytes: last.bytes, tokens: 0 };
    const others = (this.#prompts.get(opening) ?? []).filter((other) => !continues(shape, other));
    this.#prompts.set(opening, [prompt, ...others].slice(0, MAX_ALIKE));
    return prompt;
  }

  /** Returns the tools that a prompt without any may have left out, those used last first. */
  of({ shape: { boundaries, lastTurn, opening } }: EncodedRequest["facts"]): readonly LeftOut[] {
    if (!opening || lastTurn === undefined || boundaries[0]?.tools) return [];
    const found = new Map<string, LastPrompt[]>();
    for (const prompt of this.#prompts.get(opening) ?? [])
      if (prompt.at < boundaries.length) found.set(prompt.tools, [...(found.get(prompt.tools) ?? []), prompt]);
    return [...found].flatMap(([key, prompts]) => {
      const tools = this.#lists.get(key);
      return tools ? [{ tools, prompts }] : [];
    });
  }
}

/** Returns whether a prompt begins with another one. */
function continues({ boundaries }: PromptShape, { at, end }: LastPrompt): boolean {
  return boundaries[at]?.hash === end;
}

/**
 * Returns a request with the tools that it left out, behind which its prompt has `shape`; where prompt and answer might
 * exceed `window`, in tokens, it stays without. Undefined where it continues none of the conversations.
 */
export function restored(
  request: EncodedRequest,
  { tools, prompts }: LeftOut,
  shape: PromptShape,
  window: number,
): EncodedRequest | undefined {
  const continued = prompts.filter((prompt) => continues(shape, prompt));
  if (continued.length === 0) return undefined;
  const bytes = promptBytes(shape);
  const fits = continued.some(
    ({ tokens, bytes: counted }) =>
      tokens > 0 && tokens + (bytes - counted) / BYTES_PER_TOKEN + ANSWER_TOKENS <= window,
  );
  return fits ? withTools(request, tools, shape) : { ...request, facts: { ...request.facts, lacksTools: true } };
}
