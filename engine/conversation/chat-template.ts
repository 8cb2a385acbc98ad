import { type Message, Role, type Tool } from "../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../errors.ts";
import type { CallIdRule } from "./call-ids.ts";
import type { ControlTokens } from "./control-tokens.ts";
import { pythonQuoted } from "./jinja/python-text.ts";
import { JinjaTemplate, RaisedByTemplate } from "./jinja/template.ts";
import { list, toValue } from "./jinja/values.ts";
import { type HistoryMessage, modelHistory, reasoningOf, textOf, writtenBy } from "./model-history.ts";
import { Placeholders, type Span } from "./placeholders.ts";
import type { StandIns } from "./template-json.ts";
import { type ReasoningField, type TemplateMessage, toTemplateMessages, toTemplateTools } from "./template-messages.ts";
import { ANY_ORDER, TRIALS, type TurnRules, turnRulesOfRendering } from "./turn-rules.ts";

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
  /**
   * The numbers of messages behind which the places in the prompt are wanted, ascending. Default: none.
   */
  readonly counts?: readonly number[];
};

/** The name of the function that marks where a message begins, which no template has. */
const MARK = "svc_mark";

/** The tool that trial conversations have. */
const TRIAL_TOOL: Tool = { name: "look", description: "Looks.", parametersJsonSchema: "{}", strict: false };

/** A rendered conversation with the places that were wanted in it. */
export type MarkedRendering = {
  /** The prompt. */
  readonly spans: readonly Span[];
  /**
   * For each of the wanted numbers of messages, the place behind them in the text, in UTF-16 units, or one in front of
   * it where only that is known: 0 where nothing is.
   */
  readonly places: readonly number[];
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
  /** The field in which the template takes the reasoning of earlier turns. Default: `reasoning_content`. */
  readonly historyReasoning?: ReasoningField;
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
  readonly #template: JinjaTemplate;
  readonly #options: ChatTemplateOptions;
  /** The template that marks where messages begin; `none` where it would write another prompt. */
  #marking: JinjaTemplate | "none" | undefined;
  /** What the template writes to open the model's turn, by the settings of reasoning. */
  readonly #openings = new Map<string, string>();

  /**
   * Parses the source and tries it on a few small conversations. Throws where it is not Jinja, and where it cannot run
   * for any of them.
   */
  constructor(options: ChatTemplateOptions) {
    this.source = options.source;
    this.#options = options;
    this.#template = new JinjaTemplate(options.source);
    this.turns = turnRulesOfRendering((messages) => this.#tried({ messages, tools: [], reasoning: false }, ANY_ORDER));
    this.#mustRun();
  }

  /** Throws the reason where no trial is rendered, none of them for words of the template's own. */
  #mustRun(): void {
    const failures: unknown[] = [];
    for (const tools of [[], [TRIAL_TOOL]]) {
      for (const messages of [TRIALS.plain.slice(0, 1), TRIALS.systemFirst, TRIALS.toolLast]) {
        try {
          this.#rendered({ messages, tools, reasoning: false }, this.turns);
          return;
        } catch (error) {
          failures.push(error instanceof EngineError ? error.cause : error);
        }
      }
    }
    if (!failures.some((failure) => failure instanceof RaisedByTemplate)) throw failures[0];
  }

  /**
   * Renders the prompt up to where the model's answer begins. A conversation that ends in a text of the assistant is
   * left open: the answer continues that text. Throws `EngineError` for what the model or its template does not take.
   */
  render(conversation: Conversation): readonly Span[] {
    return this.#rendered(conversation, this.turns);
  }

  /** Renders the prompt as `render` does, and finds the places of `Conversation.counts` in it. */
  renderMarked(conversation: Conversation): MarkedRendering {
    const { counts = [] } = conversation;
    if (counts.length === 0) return { spans: this.render(conversation), places: [] };
    const unmarked = () => ({ spans: this.render(conversation), places: counts.map(() => 0) });
    const marking = this.#markingTemplate();
    if (marking === "none") return unmarked();
    let spans: readonly Span[];
    try {
      spans = this.#rendered(conversation, this.turns, marking);
    } catch {
      return unmarked();
    }
    const { callIds = "any" } = this.#options;
    const history = modelHistory(conversation.messages, { turns: this.turns, callIds, images: false, counted: true });
    const begins = beginsOf(spans, history, this.#openingOf(conversation));
    return { spans, places: writtenBy(history, counts).map((written) => lastKnown(begins, written)) };
  }

  /** Returns the template with marks, once it has shown for trial conversations that it writes the same prompt. */
  #markingTemplate(): JinjaTemplate | "none" {
    if (this.#marking) return this.#marking;
    const marking = new JinjaTemplate(this.source, MARK);
    const isSame = Object.values(TRIALS).every((messages) =>
      [[], [TRIAL_TOOL]].every((tools) => {
        const trial = { messages, tools, reasoning: false };
        return this.#tried(trial, this.turns, marking) === this.#tried(trial, this.turns);
      }),
    );
    this.#marking = isSame ? marking : "none";
    return this.#marking;
  }

  /** Returns what the template writes to open the model's turn; undefined where that cannot be told. */
  #openingOf({ reasoning, effortVariables, closed }: Conversation): string | undefined {
    if (closed) return "";
    const key = JSON.stringify([reasoning, effortVariables]);
    const known = this.#openings.get(key);
    if (known !== undefined) return known;
    const trial = {
      messages: TRIALS.usersTogether.slice(0, 1),
      tools: [],
      reasoning,
      ...(effortVariables && { effortVariables }),
    };
    const open = this.#tried(trial, this.turns);
    const shut = this.#tried({ ...trial, closed: true }, this.turns);
    if (open === undefined || shut === undefined || !open.startsWith(shut)) return undefined;
    // Callers choose among a few settings, which profiles name.
    this.#openings.set(key, open.slice(shut.length));
    return this.#openings.get(key);
  }

  /** Returns the prompt of a conversation in the order of `turns`; undefined where the template refuses it. */
  #tried(conversation: Conversation, turns: TurnRules, template?: JinjaTemplate): string | undefined {
    try {
      return textOfSpans(this.#rendered(conversation, turns, template));
    } catch {
      return undefined;
    }
  }

  /** Renders a conversation. With `marking`, a marked template, spans without text tell where messages begin. */
  #rendered(conversation: Conversation, turns: TurnRules, marking?: JinjaTemplate): readonly Span[] {
    const placeholders = new Placeholders();
    // One for all equal texts, which a template may compare.
    const held = new Map<string, string>();
    const hold = (text: string) => {
      const placeholder = held.get(text) ?? placeholders.forText(text);
      held.set(text, placeholder);
      return placeholder;
    };
    const standIns: StandIns = {
      text: (text) => (Placeholders.mustHold(text) || !this.#options.controlTokens.isInert(text) ? hold(text) : text),
    };
    const { callIds = "any", historyArguments, historyReasoning } = this.#options;
    const history = modelHistory(conversation.messages, { turns, callIds, images: false });
    const messages: TemplateMessage[] = [
      ...toTemplateMessages(history, standIns, { historyArguments, historyReasoning }),
    ];
    const tools = toTemplateTools(conversation.tools, standIns);
    const { closed = false } = conversation;
    const prefill = openTurn(history);
    const run = (opensTurn: boolean) => this.#run({ messages, tools, conversation, placeholders, opensTurn, marking });
    if (prefill === undefined) return run(!closed);

    const last = messages.pop();
    if (prefill === "") return run(!closed);
    const mark = placeholders.forText(prefill);
    messages.push({ ...last, content: mark });
    const spans = run(false);
    const end = spans.findLastIndex(({ placeholder }) => placeholder === mark);
    if (end < 0) throw new TemplateRefusal("messages");
    return spans.slice(0, end + 1);
  }

  #run({ messages, tools, conversation, placeholders, opensTurn, marking }: Run): readonly Span[] {
    const { reasoning, effortVariables } = conversation;
    const shown = messages.map(toValue);
    const numbers = new Map(shown.map(({ value }, index) => [value, index]));
    const mark = (item: unknown) => {
      const number = numbers.get(item);
      return number === undefined ? null : placeholders.forMark(number);
    };
    const variables = {
      tools: tools.length === 0 ? null : tools,
      documents: null,
      add_generation_prompt: opensTurn,
      enable_thinking: reasoning,
      ...(reasoning ? this.#options.reasoningOn : this.#options.reasoningOff),
      ...effortVariables,
      bos_token: this.#options.bosToken,
      eos_token: this.#options.eosToken,
      ...(marking && { [MARK]: mark }),
    };
    const values = Object.entries(variables).map(([name, value]) => [name, toValue(value)] as const);
    let rendered: string;
    try {
      rendered = (marking ?? this.#template).render({ messages: list(shown), ...Object.fromEntries(values) }, (text) =>
        placeholders.quoted(text, pythonQuoted),
      );
    } catch (cause) {
      throw new TemplateRefusal("messages", ownWords(cause, this.source), cause);
    }
    const spans = placeholders.restore(rendered);
    if (!spans) throw new TemplateRefusal("messages");
    return spans;
  }
}

/** What one rendering takes. */
type Run = {
  readonly messages: readonly TemplateMessage[];
  readonly tools: readonly TemplateMessage[];
  readonly conversation: Conversation;
  readonly placeholders: Placeholders;
  /** Whether the model's turn is opened at the end. */
  readonly opensTurn: boolean;
  /** The template that marks where messages begin; undefined where nothing is to be marked. */
  readonly marking: JinjaTemplate | undefined;
};

function textOfSpans(spans: readonly Span[]): string {
  return spans.map(({ text }) => text).join("");
}

/**
 * Returns where each message of a history begins in its prompt, and last where the conversation ends. What is not known
 * is undefined: a template may say nothing of a message, or elsewhere. `opening` is what opens the model's turn;
 * undefined where it is not known.
 */
function beginsOf(
  spans: readonly Span[],
  history: readonly HistoryMessage[],
  opening: string | undefined,
): readonly (number | undefined)[] {
  const begins: (number | undefined)[] = history.map(() => undefined);
  let at = 0;
  for (const { text, mark } of spans) {
    // Templates that look at all messages first go through them once more to write them.
    if (mark !== undefined) begins[mark] = at;
    at += text.length;
  }
  const isOpened = openTurn(history) === undefined && opening !== undefined && textOfSpans(spans).endsWith(opening);
  begins.push(isOpened ? at - opening.length : undefined);
  const known = begins.filter((begin) => begin !== undefined);
  const isInOrder = known.every((begin, index) => begin >= (known[index - 1] ?? 0));
  return isInOrder ? begins : begins.map(() => undefined);
}

/** Returns the begin of the message of a number, or of the last one before it that is known; 0 where none is. */
function lastKnown(begins: readonly (number | undefined)[], index: number): number {
  for (let at = index; at >= 0; at -= 1) {
    const begin = begins[at];
    if (begin !== undefined) return begin;
  }
  return 0;
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
