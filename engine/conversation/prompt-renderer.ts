import { EngineError } from "../errors.ts";
import { upToBreakpoint } from "./cache-breakpoints.ts";
import {
  ChatTemplate,
  type ChatTemplateOptions,
  type Conversation,
  type MarkedRendering,
  TemplateRefusal,
} from "./chat-template.ts";
import { type ControlToken, ControlTokens } from "./control-tokens.ts";
import { type PackedConversation, unpackConversation } from "./packed-conversation.ts";
import type { Span } from "./placeholders.ts";
import { lastUpTo, type PieceOptions, type PromptPiece, toPromptPieces } from "./prompt-pieces.ts";

/** The most messages of a conversation, and tools, among which the one is looked for that the template refuses. */
const MAX_SEARCHED = 2000;

/** All that the prompts of a model depend on besides the conversation: plain data, which can go to another thread. */
export type PromptFormat = Omit<ChatTemplateOptions, "controlTokens"> &
  PieceOptions & {
    /** The control tokens of the vocabulary, whose spellings callers must not write. */
    readonly controlTokens: readonly ControlToken[];
    /** The text that a template writes last where it has opened the reasoning; undefined where the model has none. */
    readonly reasoningOpen: string | undefined;
  };

/** A prompt as text, cut into the pieces that are tokenised one by one. */
export type RenderedPrompt = {
  /** The whole text. */
  readonly text: string;
  /** The places where the pieces end, in UTF-16 units; the next one begins there. */
  readonly ends: Uint32Array;
  /** The numbers of the pieces in which no spelling stands for a control token, ascending. */
  readonly plain: Uint32Array;
  /** Whether the template has opened the reasoning already: the answer has only its end. */
  readonly startsInReasoning: boolean;
  /** Whether the answer goes on with a text of the caller's. */
  readonly continuesText: boolean;
  /**
   * The part that the prompt has in common with that of the conversation up to the last part that the caller marked as
   * the end of a reusable prefix: the number of whole pieces, and the piece of that other prompt that follows them.
   * Undefined without a mark, and where the template does not take a conversation that ends there.
   */
  readonly marked: { readonly pieces: number; readonly next: PromptPiece | undefined } | undefined;
  /**
   * For each of `Conversation.counts` the end of a piece, in UTF-16 units, up to which any prompt that begins with so
   * many messages has the same pieces: behind these messages, or in front of their end where no cut is possible there. 0
   * where nothing is known.
   */
  readonly places: Uint32Array;
};

/** Turns conversations into the pieces of a prompt, by the chat template of one model. */
export class PromptRenderer {
  readonly #format: PromptFormat;
  readonly #controlTokens: ControlTokens;
  readonly #template: ChatTemplate;

  /** Parses the template. Throws where it is not Jinja. */
  constructor(format: PromptFormat) {
    this.#format = format;
    this.#controlTokens = new ControlTokens(format.controlTokens);
    this.#template = new ChatTemplate({ ...format, controlTokens: this.#controlTokens });
  }

  /** Renders the prompt. Throws `EngineError` for what the model or its template does not take. */
  render(conversation: Conversation): RenderedPrompt {
    const { spans, places } = this.#marking(conversation);
    const pieces = this.#pieces(spans, places);
    let end = 0;
    const ends = Uint32Array.from(pieces, ({ text }) => (end += text.length));
    return {
      text: pieces.map(({ text }) => text).join(""),
      ends,
      places: Uint32Array.from(places, (place) => lastUpTo(ends, place) ?? 0),
      plain: Uint32Array.from(pieces.flatMap(({ control }, at) => (control ? [] : [at]))),
      startsInReasoning: this.#endsInReasoning(spans),
      continuesText: spans.at(-1)?.origin === "caller",
      marked: this.#marked(conversation, pieces, places),
    };
  }

  /**
   * Finds out which message or tool the template refuses, by rendering ever less of the conversation. A beginning of it
   * may be refused for another reason, as that nobody has asked anything yet. Returns the error that names it.
   */
  refusal(conversation: Conversation, refusal: TemplateRefusal): EngineError {
    const { messages, tools } = conversation;
    const fails = (part: Partial<Conversation>) => {
      try {
        this.#spans({ ...conversation, ...part, closed: true });
        return false;
      } catch (error) {
        return !(error instanceof TemplateRefusal) || error.says === refusal.says;
      }
    };
    const search = (path: string, count: number, failsWith: (count: number) => boolean) =>
      count === 0 || count > MAX_SEARCHED ? refusal.at(path) : refusal.at(`${path}[${firstFailing(count, failsWith)}]`);
    return tools.length > 0 && !fails({ tools: [] })
      ? search("tools", tools.length, (count) => fails({ tools: tools.slice(0, count) }))
      : search("messages", messages.length, (count) => fails({ messages: messages.slice(0, count) }));
  }

  /**
   * Renders a conversation. Whatever is thrown on the way is the conversation's doing: the template is known to be
   * sound.
   */
  #spans(conversation: Conversation): readonly Span[] {
    return this.#marking({ ...conversation, counts: [] }).spans;
  }

  #marking(conversation: Conversation): MarkedRendering {
    try {
      return this.#template.renderMarked(conversation);
    } catch (error) {
      throw error instanceof EngineError ? error : new TemplateRefusal("messages", undefined, error);
    }
  }

  #pieces(spans: readonly Span[], places: readonly number[]): readonly PromptPiece[] {
    return toPromptPieces(spans, this.#controlTokens, this.#format, places);
  }

  #endsInReasoning(spans: readonly Span[]): boolean {
    const last = spans.at(-1);
    const open = this.#format.reasoningOpen;
    return last?.origin === "template" && open !== undefined && last.text.trimEnd().endsWith(open);
  }

  #marked(
    conversation: Conversation,
    pieces: readonly PromptPiece[],
    places: readonly number[],
  ): RenderedPrompt["marked"] {
    const prefix = upToBreakpoint(conversation);
    if (!prefix) return undefined;
    try {
      const others = this.#pieces(this.#spans(prefix), places);
      const at = others.findIndex(
        ({ text, control }, index) => text !== pieces[index]?.text || control !== pieces[index]?.control,
      );
      return at < 0 ? { pieces: others.length, next: undefined } : { pieces: at, next: others[at] };
    } catch {
      // A template need not take a conversation that breaks off there: then nothing can be said.
      return undefined;
    }
  }
}

/** Returns the number of the first of `count` items with which a beginning of them fails, which all of them do. */
function firstFailing(count: number, failsWith: (count: number) => boolean): number {
  let passing = 0;
  let failing = count;
  while (failing - passing > 1) {
    const middle = (passing + failing) >>> 1;
    if (failsWith(middle)) failing = middle;
    else passing = middle;
  }
  return failing - 1;
}

/** What rendering on another thread needs. */
export type RenderInput = { readonly format: PromptFormat; readonly conversation: PackedConversation };

/** The renderer of the last format: a thread has one model's prompts to render. */
let last: { readonly key: string; readonly renderer: PromptRenderer } | undefined;

/**
 * Renders a prompt on any thread. Throws `EngineError`, which names the message or the tool that the template refuses.
 */
export function renderPrompt({ format, conversation: packed }: RenderInput): RenderedPrompt {
  const key = JSON.stringify(format);
  last = last?.key === key ? last : { key, renderer: new PromptRenderer(format) };
  const conversation = unpackConversation(packed);
  try {
    return last.renderer.render(conversation);
  } catch (error) {
    throw error instanceof TemplateRefusal ? last.renderer.refusal(conversation, error) : error;
  }
}
