import type { Template } from "@huggingface/jinja";
import { type Message, Role, type Tool } from "../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../errors.ts";
import type { CallIdRule } from "./call-ids.ts";
import type { ControlTokens } from "./control-tokens.ts";
import { modelHistory, reasoningOf, textOf } from "./model-history.ts";
import { parseTemplate } from "./parse-template.ts";
import { Placeholders, type Span } from "./placeholders.ts";
import type { JsonStandIns } from "./template-json.ts";
import { type TemplateMessage, toTemplateMessages, toTemplateTools } from "./template-messages.ts";
import { ANY_ORDER, type TurnRules, turnRulesOfRendering } from "./turn-rules.ts";

/** A conversation as a template renders it. */
export type Conversation = {
  /** The messages, oldest first. */
  readonly messages: readonly Message[];
  /** The tools that the model may see. */
  readonly tools: readonly Tool[];
  /** Whether the model is to think before it answers. */
  readonly reasoning: boolean;
  /** The variables of the template for how much the model is to think. Default: none. */
  readonly effortVariables?: TemplateVariables;
  /** Whether to leave out the beginning of the model's turn. Default: false. */
  readonly closed?: boolean;
};

/** The settings of how a chat template is rendered. */
export type ChatTemplateOptions = {
  /** The Jinja source, as it stands in the model file. */
  readonly source: string;
  /** The text of the token that begins a prompt. */
  readonly bosToken: string;
  /** The text of the token that ends a turn. */
  readonly eosToken: string;
  /** The control tokens of the vocabulary, whose spellings callers must not write. */
  readonly controlTokens: ControlTokens;
  /** The variables besides `enable_thinking` that are set where the model is to think. Default: none. */
  readonly reasoningOn?: TemplateVariables;
  /** The variables besides `enable_thinking` that are set where the model is not to think. Default: none. */
  readonly reasoningOff?: TemplateVariables;
  /** Whether the template takes the arguments of earlier calls as a value, or as JSON text. Default: value. */
  readonly historyArguments?: "value" | "text";
  /** What the template demands of the ids of calls. Default: any. */
  readonly callIds?: CallIdRule;
};

/** Variables of a chat template, by name. */
export type TemplateVariables = Readonly<Record<string, string | number | boolean>>;

/**
 * The error for a conversation that the template does not take. Its facts are `field`, which names what of it, such as
 * `messages[3]`, and `template_says`, the template's own words where they are known to be that.
 */
export class TemplateRefusal extends EngineError {
  /** The template's own words for why; undefined where there are none that may be told. */
  readonly says: string | undefined;

  /** Makes the error. `cause` is what was thrown, and is never sent: it may quote the conversation. */
  constructor(path: string, says?: string, cause?: unknown) {
    const why = says === undefined ? "" : ` It says: ${says}`;
    const facts = { field: path, ...(says === undefined ? {} : { template_says: says }) };
    super("INVALID_REQUEST", `${path}: the model's chat template does not take this.${why}`, facts, cause);
    this.says = says;
  }

  /** Returns the same refusal with another path. */
  at(path: string): TemplateRefusal {
    return new TemplateRefusal(path, this.says, this.cause);
  }
}

/**
 * Renders the model's own chat template. The same conversation always gives the same text, and a longer one begins with
 * the text of the shorter one as far as the template is written so.
 */
export class ChatTemplate {
  /** The Jinja source. */
  readonly source: string;
  /** What the template takes of the order of messages, which trial conversations have shown. */
  readonly turns: TurnRules;
  readonly #template: Template;
  readonly #options: ChatTemplateOptions;

  /** Parses the source and tries it on a few small conversations. Throws where it is not Jinja. */
  constructor(options: ChatTemplateOptions) {
    this.source = options.source;
    this.#options = options;
    this.#template = parseTemplate(options.source);
    this.turns = turnRulesOfRendering((messages) => this.#tried(messages));
  }

  /**
   * Renders the prompt up to where the model's answer begins. A conversation that ends in a text of the assistant is
   * left open: the answer continues that text. Throws `EngineError` for what the model or its template does not take.
   */
  render(conversation: Conversation): readonly Span[] {
    return this.#rendered(conversation, this.turns);
  }

  /** Returns the prompt of a conversation in the order that it has; undefined where the template refuses it. */
  #tried(messages: readonly Message[]): string | undefined {
    try {
      const spans = this.#rendered({ messages, tools: [], reasoning: false }, ANY_ORDER);
      return spans.map(({ text }) => text).join("");
    } catch {
      return undefined;
    }
  }

  #rendered(conversation: Conversation, turns: TurnRules): readonly Span[] {
    const placeholders = new Placeholders();
    const standIns: JsonStandIns = {
      text: (text, always) => {
        const held = always || Placeholders.mustHold(text) || !this.#options.controlTokens.isInert(text);
        return held ? placeholders.forText(text) : text;
      },
      number: (lexeme) => placeholders.forNumber(lexeme),
    };
    const { callIds = "any", historyArguments } = this.#options;
    const history = modelHistory(conversation.messages, { turns, callIds, images: false });
    const messages = [...toTemplateMessages(history, standIns, historyArguments === "text")];
    const tools = toTemplateTools(conversation.tools, standIns);
    const { closed = false } = conversation;
    const prefill = openTurn(history);
    if (prefill === undefined) return this.#run(messages, tools, conversation, placeholders, !closed);

    const last = messages.pop();
    if (prefill === "") return this.#run(messages, tools, conversation, placeholders, !closed);
    const mark = placeholders.forText(prefill);
    messages.push({ ...last, content: mark });
    const spans = this.#run(messages, tools, conversation, placeholders, false);
    const end = spans.findLastIndex(({ placeholder }) => placeholder === mark);
    if (end < 0) throw new TemplateRefusal("messages");
    return spans.slice(0, end + 1);
  }

  #run(
    messages: readonly TemplateMessage[],
    tools: readonly TemplateMessage[],
    { reasoning, effortVariables }: Conversation,
    placeholders: Placeholders,
    opensTurn: boolean,
  ): readonly Span[] {
    let rendered: string;
    try {
      rendered = this.#template.render({
        messages,
        tools: tools.length === 0 ? null : tools,
        add_generation_prompt: opensTurn,
        enable_thinking: reasoning,
        ...(reasoning ? this.#options.reasoningOn : this.#options.reasoningOff),
        ...effortVariables,
        bos_token: this.#options.bosToken,
        eos_token: this.#options.eosToken,
      });
    } catch (cause) {
      throw new TemplateRefusal("messages", ownWords(cause, this.source), cause);
    }
    const spans = placeholders.restore(rendered);
    if (!spans) throw new TemplateRefusal("messages");
    return spans;
  }
}

/** Words without what could name a file, a host or an address. */
const PLAIN_WORDS = /^(?:[A-Za-z0-9 ,;:!?'"()_-]|[A-Za-z]\/(?=[A-Za-z.])|\.(?![A-Za-z0-9])){1,200}$/;

/**
 * Returns what a template said when it refused a conversation, where that stands in its source as it is: words that it
 * has put together may be a caller's.
 */
function ownWords(thrown: unknown, source: string): string | undefined {
  const words = thrown instanceof Error ? thrown.message : "";
  return PLAIN_WORDS.test(words) && source.includes(words) ? words : undefined;
}

/**
 * Returns the text that the answer is to continue: "" for an empty last turn, undefined when the last turn is closed.
 */
function openTurn(messages: readonly Message[]): string | undefined {
  const last = messages.at(-1);
  if (last?.role !== Role.ASSISTANT) return undefined;
  if (last.parts.some(({ kind }) => kind?.$case === "toolCall")) return undefined;
  const text = textOf(last.parts);
  return text === "" && reasoningOf(last.parts) !== "" ? undefined : text;
}
