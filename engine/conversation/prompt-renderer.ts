import { deserialize, serialize } from "node:v8";
import type { Message, Part } from "../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../errors.ts";
import { upToBreakpoint } from "./cache-breakpoints.ts";
import {
  ChatTemplate,
  type ChatTemplateOptions,
  type Conversation,
  type MarkedRendering,
  TemplateRefusal,
} from "./chat-template.ts";
import { PART_SEPARATOR, textPart } from "./history/model-history.ts";
import type { Span } from "./placeholders.ts";
import {
  type ControlToken,
  ControlTokens,
  lastUpTo,
  type PieceOptions,
  type PromptPiece,
  toPromptPieces,
} from "./prompt-pieces.ts";

/** The maximum message parts that are packed at once: about a millisecond of work. */
const MAX_PARTS = 500;
const MAX_UNITS = 1_000_000;

/** Serialized in portions: posting a large request of small parts as objects takes 100 ms at once. */
type PackedConversation = Omit<Conversation, "messages"> & { readonly messages: readonly Uint8Array[] };

/** A message or its beginning; `goesOn` if the next fragment continues it. */
type Fragment = { readonly message: Message; readonly goesOn: boolean };

/** Packs a conversation. `nextSlice` is awaited between portions, and may throw to cancel. */
export async function packConversation(
  conversation: Conversation,
  nextSlice: () => Promise<void>,
): Promise<PackedConversation> {
  const packed: Uint8Array[] = [];
  let portion: Fragment[] = [];
  let parts = 0;
  let units = 0;
  for (const fragment of fragments(conversation.messages)) {
    portion.push(fragment);
    parts += 1 + fragment.message.parts.length;
    units += fragment.message.parts.reduce((sum, part) => sum + unitsOf(part), 0);
    if (parts < MAX_PARTS && units < MAX_UNITS) continue;
    packed.push(serialize(portion));
    portion = [];
    parts = 0;
    units = 0;
    await nextSlice();
  }
  packed.push(serialize(portion));
  return { ...conversation, messages: packed };
}

function unpackConversation(packed: PackedConversation): Conversation {
  const messages: Message[] = [];
  let begun: Part[] = [];
  for (const bytes of packed.messages) {
    for (const { message, goesOn } of deserialize(bytes) as readonly Fragment[]) {
      // `packConversation` serialized these types
      if (goesOn) begun.push(...message.parts);
      else {
        messages.push(begun.length === 0 ? message : { ...message, parts: [...begun, ...message.parts] });
        begun = [];
      }
    }
  }
  return { ...packed, messages };
}

function* fragments(messages: readonly Message[]): Generator<Fragment, void, void> {
  for (const message of messages) {
    const parts = joinedTexts(message.parts);
    for (let from = 0; ; from += MAX_PARTS) {
      const goesOn = from + MAX_PARTS < parts.length;
      yield { message: { ...message, parts: parts.slice(from, from + MAX_PARTS) }, goesOn };
      if (!goesOn) break;
    }
  }
}

/** Joins adjacent texts as templates do, so that thousands of small texts become one. */
function joinedTexts(parts: readonly Part[]): readonly Part[] {
  if (parts.length < 2) return parts[0]?.kind?.$case === "toolResult" ? parts.map(joinedResult) : parts;
  const joined: Part[] = [];
  let texts: string[] = [];
  const flush = () => {
    if (texts.length > 0) joined.push(textPart(texts.join(PART_SEPARATOR)));
    texts = [];
  };
  for (const part of parts) {
    if (part.kind?.$case === "text" && !part.cacheBreakpoint) texts.push(part.kind.value.text);
    else {
      flush();
      joined.push(joinedResult(part));
    }
  }
  flush();
  return joined;
}

function joinedResult(part: Part): Part {
  const { kind } = part;
  if (kind?.$case !== "toolResult") return part;
  return { ...part, kind: { $case: "toolResult", value: { ...kind.value, content: joinedTexts(kind.value.content) } } };
}

function unitsOf({ kind }: Part): number {
  switch (kind?.$case) {
    case "text":
    case "reasoning":
      return kind.value.text.length;
    case "toolCall":
      return kind.value.argumentsJson.length;
    case "toolResult":
      return kind.value.content.reduce((sum, part) => sum + unitsOf(part), 0);
    default:
      return 0;
  }
}

/** The maximum messages and tools among which a refused one is searched. */
const MAX_SEARCHED = 2000;

/** All but the conversation that determines a prompt: plain data for a worker thread. */
export type PromptFormat = Omit<ChatTemplateOptions, "controlTokens"> &
  PieceOptions & {
    readonly controlTokens: readonly ControlToken[];
    /** The text at the end of a prompt that has opened the reasoning; undefined if the model has none. */
    readonly reasoningOpen: string | undefined;
  };

export type RenderedPrompt = {
  readonly text: string;
  readonly ends: Uint32Array;
  /** The ascending indexes of the pieces without control tokens. */
  readonly plain: Uint32Array;
  readonly startsInReasoning: boolean;
  readonly continuesText: boolean;
  /** Shared with the prompt up to the last cache breakpoint: equal pieces, and the next one of that prompt. */
  readonly marked: { readonly pieces: number; readonly next: PromptPiece | undefined } | undefined;
  /** For each of `Conversation.counts`, the end of the last shared piece, in UTF-16 units; 0 if unknown. */
  readonly places: Uint32Array;
};

export class PromptRenderer {
  readonly #format: PromptFormat;
  readonly #controlTokens: ControlTokens;
  readonly #template: ChatTemplate;

  constructor(format: PromptFormat) {
    this.#format = format;
    this.#controlTokens = new ControlTokens(format.controlTokens);
    this.#template = new ChatTemplate({ ...format, controlTokens: this.#controlTokens });
  }

  render(conversation: Conversation): RenderedPrompt {
    const { spans, places } = this.#marking(conversation);
    const pieces = this.#pieces(spans);
    const last = spans.at(-1);
    const open = this.#format.reasoningOpen;
    let end = 0;
    const ends = Uint32Array.from(pieces, ({ text }) => (end += text.length));
    return {
      text: pieces.map(({ text }) => text).join(""),
      ends,
      places: Uint32Array.from(places, (place) => lastUpTo(ends, place) ?? 0),
      plain: Uint32Array.from(pieces.flatMap(({ control }, at) => (control ? [] : [at]))),
      startsInReasoning: last?.origin === "template" && open !== undefined && last.text.trimEnd().endsWith(open),
      continuesText: last?.origin === "caller",
      marked: this.#marked(conversation, pieces),
    };
  }

  /** Finds the refused message or tool by rendering prefixes; those refused for another reason do not count. */
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

  /** Failures are the conversation's: the template was checked before. */
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

  #pieces(spans: readonly Span[]): readonly PromptPiece[] {
    return toPromptPieces(spans, this.#controlTokens, this.#format);
  }

  #marked(conversation: Conversation, pieces: readonly PromptPiece[]): RenderedPrompt["marked"] {
    const prefix = upToBreakpoint(conversation);
    if (!prefix) return undefined;
    try {
      const others = this.#pieces(this.#spans(prefix));
      const at = others.findIndex(
        ({ text, control }, index) => text !== pieces[index]?.text || control !== pieces[index]?.control,
      );
      return at < 0 ? { pieces: others.length, next: undefined } : { pieces: at, next: others[at] };
    } catch {
      // The template may refuse a conversation that ends there; the common part is then unknown.
      return undefined;
    }
  }
}

/** Returns the index of the first of `count` items whose inclusion in a prefix fails; all of them together fail. */
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

type RenderInput = { readonly format: PromptFormat; readonly conversation: PackedConversation };

/** The renderer of the last format: a thread renders prompts of one model. */
let last: { readonly key: string; readonly renderer: PromptRenderer } | undefined;

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
