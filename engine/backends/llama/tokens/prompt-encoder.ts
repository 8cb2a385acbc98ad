import type { LlamaModel, Token } from "node-llama-cpp";
import type { WorkOrder } from "../../../../deploy/runtime/threads/work-threads.ts";
import type { CallerWork } from "../../../caller-work/caller-work.ts";
import type { Conversation } from "../../../conversation/chat-template.ts";
import { type PromptFormat, PromptRenderer, type RenderedPrompt } from "../../../conversation/prompt-renderer.ts";
import type { SegmentCache } from "../../../conversation/segment-cache.ts";
import { EngineError } from "../../../errors.ts";
import { ConversationRendering } from "../../conversation-rendering.ts";
import { LoopSlices } from "../../loop-slices.ts";
import { windowExceeded } from "../../request-plan.ts";
import { commonLength } from "../slots/slots.ts";
import { PromptBounds } from "./prompt-bounds.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** The amount of text that is tokenized per tick of the event loop, in UTF-16 units: about 2,000 tokens, or 2 ms. */
export const PORTION_UNITS = 8192;
const CALL_UNITS = 32;
/** The time for finding a known segment, as a share of that for tokenizing it. */
const KNOWN_SHARE = 0.1;
/** Longer prompts are estimated; others are tokenized completely, so that the error gives the exact excess. */
const EXACT_WINDOWS = 2;

export type Prompt = {
  readonly tokens: readonly Token[];
  /** Whether the template has already opened the reasoning, so that the answer contains only its end. */
  readonly startsInReasoning: boolean;
  readonly continuesText: boolean;
  readonly markedTokens: number;
  /** For each of `Conversation.counts`, the tokens that all prompts with these first messages share; 0 if unknown. */
  readonly places: readonly number[];
};

export type PromptEncoderOptions = {
  readonly model: LlamaModel;
  readonly vocabulary: Vocabulary;
  readonly format: PromptFormat;
  readonly contextWindow: number;
  readonly work: Pick<CallerWork, "run">;
  readonly segments: SegmentCache;
};

/** A tenant's work on a prompt. */
export type EncodeOrder = WorkOrder & {
  /** The isolation salt under which the tenant's earlier prompts are known. Default: none. */
  readonly salt?: string;
};

type Tokenized = {
  readonly tokens: Token[];
  /** The number of tokens of the whole prompt: exact if all of it was read, else an estimate. */
  readonly count: number;
  readonly markedTokens: number;
  readonly places: readonly number[];
};

/**
 * Encodes conversations to tokens. Large ones are rendered on worker threads; the main thread works in slices of a few
 * milliseconds, alternating between tenants.
 */
export class PromptEncoder {
  readonly #options: PromptEncoderOptions;
  readonly #renderer: PromptRenderer;
  readonly #rendering: ConversationRendering;
  readonly #bounds: PromptBounds;
  readonly #slices = new LoopSlices();

  constructor(options: PromptEncoderOptions) {
    const { format, vocabulary, model, work } = options;
    this.#options = options;
    this.#renderer = new PromptRenderer(format);
    this.#rendering = new ConversationRendering(this.#renderer, format, work, this.#slices);
    this.#bounds = new PromptBounds({
      renderer: this.#renderer,
      tokensOf: ({ text }) => model.tokenize(text, true).length,
      longestTokenBytes: vocabulary.longestTokenBytes,
    });
  }

  /** The tokens of prompts so far, by how they were found. */
  get promptTokens(): { readonly known: number; readonly tokenized: number } {
    const { foundTokens: known, madeTokens: tokenized } = this.#options.segments;
    return { known, tokenized };
  }

  get longestTokenBytes(): number {
    return this.#bounds.longestTokenBytes;
  }

  /** Throws `EngineError` CONTEXT_WINDOW_EXCEEDED, INVALID_REQUEST, QUEUE_FULL, or why the caller left. */
  async encode(conversation: Conversation, order: EncodeOrder): Promise<Prompt> {
    const { contextWindow } = this.#options;
    this.#refuseHopeless(conversation, contextWindow);
    const rendered = await this.#rendering.render(conversation, order);
    const { tokens, count, markedTokens, places } = await this.#tokenize(rendered, order);
    if (count >= contextWindow) throw windowExceeded(count, contextWindow);
    const { startsInReasoning, continuesText } = rendered;
    return { tokens, startsInReasoning, continuesText, markedTokens, places };
  }

  /** Returns the text of a prompt of a few messages. Throws `TemplateRefusal`. */
  textOf(conversation: Conversation): string {
    const { text } = this.#renderer.render(conversation);
    const { bosText } = this.#options.vocabulary;
    return this.#options.model.tokens.shouldPrependBosToken && !text.startsWith(bosText) ? bosText + text : text;
  }

  /** Counts beyond the window too; beyond twice the window it estimates or throws. Throws as `encode` does. */
  async count(conversation: Conversation, order: EncodeOrder): Promise<number> {
    this.#refuseHopeless(conversation, EXACT_WINDOWS * this.#options.contextWindow);
    return (await this.#tokenize(await this.#rendering.render(conversation, order), order)).count;
  }

  #refuseHopeless(conversation: Conversation, most: number): void {
    const least = this.#bounds.least(conversation);
    if (least >= most) throw windowExceeded(least, this.#options.contextWindow);
  }

  /** Waits for a slice of a few milliseconds for the tenant. Throws why the caller left. */
  nextSlice({ tenant, signal }: WorkOrder): Promise<void> {
    return this.#slices.nextUnlessLeft(tenant, signal);
  }

  async #tokenize(rendered: RenderedPrompt, order: EncodeOrder): Promise<Tokenized> {
    const { contextWindow, model } = this.#options;
    const { text, ends, marked } = rendered;
    const plain = new Set(rendered.plain);
    const segments = this.#options.segments.of(order.tenant, order.salt ?? "");
    const tokens: Token[] = [];
    const places: number[] = Array.from(rendered.places, () => 0);
    let markedFrom: number | undefined;
    let units = 0;
    let from = 0;
    for (let at = 0; at < ends.length && tokens.length < EXACT_WINDOWS * contextWindow; at += 1) {
      if (at === marked?.pieces) markedFrom = tokens.length;
      const end = ends[at] ?? from;
      const control = !plain.has(at);
      const segment = text.slice(from, end);
      const known = segments.get(segment, control);
      const found = known ?? Uint32Array.from(this.#tokensOf(segment, control));
      if (!known) segments.keep(segment, control, found);
      for (const token of found) tokens.push(token as Token);
      units += (known ? KNOWN_SHARE * (end - from) : end - from) + CALL_UNITS;
      from = end;
      for (const [index, place] of rendered.places.entries()) if (place === end) places[index] = tokens.length;
      if (units < PORTION_UNITS) continue;
      units = 0;
      await this.nextSlice(order);
    }
    let markedTokens = 0;
    if (marked) {
      const next = marked.next && this.#tokensOf(marked.next.text, marked.next.control);
      const before = markedFrom ?? tokens.length;
      markedTokens = before + (next ? commonLength(next, tokens.slice(before, before + next.length)) : 0);
    }
    const count = from < text.length ? Math.round((tokens.length * text.length) / Math.max(1, from)) : tokens.length;
    // Most templates write it themselves.
    const { bos, shouldPrependBosToken } = model.tokens;
    if (!shouldPrependBosToken || bos === null || tokens[0] === bos) return { tokens, count, markedTokens, places };
    tokens.unshift(bos);
    return {
      tokens,
      count: count + 1,
      markedTokens: marked ? markedTokens + 1 : 0,
      places: places.map((place) => (place > 0 ? place + 1 : 0)),
    };
  }

  #tokensOf(text: string, control: boolean): readonly Token[] {
    try {
      return this.#options.model.tokenize(text, control);
    } catch (cause) {
      throw new EngineError("INVALID_REQUEST", "messages: the model's tokenizer does not take them.", {}, cause);
    }
  }
}
