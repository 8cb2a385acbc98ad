import { setImmediate } from "node:timers/promises";
import type { LlamaModel, Token } from "node-llama-cpp";
import type { ChatTemplate, Conversation } from "../../../conversation/chat-template.ts";
import type { Span } from "../../../conversation/placeholders.ts";
import { toPromptPieces } from "../../../conversation/prompt-pieces.ts";
import type { OutputMarkers } from "../../../output-parser/markers.ts";
import { throwIfLeft } from "../../caller-left.ts";
import type { Vocabulary } from "./vocabulary.ts";

/**
 * The amount of text that is tokenized before the event loop is free again, in UTF-16 units: about 2,000 tokens, or 2
 * ms.
 */
const PORTION_UNITS = 8192;
/** The cost of a call of the tokenizer besides its text, in UTF-16 units of text. */
const CALL_UNITS = 32;

/** A conversation as the model reads it. */
export type Prompt = {
  /** The tokens of the whole prompt. */
  readonly tokens: readonly Token[];
  /** Whether the template has opened the reasoning already: the answer has only its end. */
  readonly startsInReasoning: boolean;
  /** Whether the answer goes on with a text of the caller's. */
  readonly continuesText: boolean;
};

/** The parts that conversations are encoded with. */
export type PromptEncoderOptions = {
  /** The model whose tokenizer is used. */
  readonly model: LlamaModel;
  /** The control tokens of the model, and where its texts may be cut. */
  readonly vocabulary: Vocabulary;
  /** The model's chat template. */
  readonly template: ChatTemplate;
  /** The marks of reasoning. */
  readonly markers: OutputMarkers;
};

/** Turns conversations into tokens, for generating and for counting alike. */
export class PromptEncoder {
  readonly #options: PromptEncoderOptions;

  /** Makes an encoder for one model. */
  constructor(options: PromptEncoderOptions) {
    this.#options = options;
  }

  /**
   * Resolves to the prompt of a conversation, letting the event loop run now and then. Throws `EngineError` for what
   * the template does not take, and when the caller leaves.
   */
  async encode(conversation: Conversation, signal: AbortSignal): Promise<Prompt> {
    const spans = this.#options.template.render(conversation);
    await setImmediate();
    throwIfLeft(signal);
    return {
      tokens: await this.#tokenize(spans, signal),
      startsInReasoning: this.#endsInReasoning(spans),
      continuesText: spans.at(-1)?.origin === "caller",
    };
  }

  #endsInReasoning(spans: readonly Span[]): boolean {
    const last = spans.at(-1);
    const open = this.#options.markers.reasoning?.open;
    return last?.origin === "template" && open !== undefined && last.text.trimEnd().endsWith(open);
  }

  async #tokenize(spans: readonly Span[], signal: AbortSignal): Promise<readonly Token[]> {
    const { model, vocabulary } = this.#options;
    const { controlTokens, cutsAtWords } = vocabulary;
    const tokens: Token[] = [];
    let units = 0;
    for (const piece of toPromptPieces(spans, controlTokens, { maxUnits: PORTION_UNITS, cutsAtWords })) {
      for (const token of model.tokenize(piece.text, piece.control)) tokens.push(token);
      units += piece.text.length + CALL_UNITS;
      if (units < PORTION_UNITS) continue;
      units = 0;
      await setImmediate();
      throwIfLeft(signal);
    }
    // Most templates write it themselves.
    const { bos, shouldPrependBosToken } = model.tokens;
    if (shouldPrependBosToken && bos !== null && tokens[0] !== bos) tokens.unshift(bos);
    return tokens;
  }
}
