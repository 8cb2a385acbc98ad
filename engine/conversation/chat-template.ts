import { type Message, Role, type Tool } from "../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../errors.ts";
import { type TextCalls, withCallsAsText } from "./history/calls-as-text.ts";
import { withDeclaredTools } from "./history/declared-tools.ts";
import {
  ANY_ORDER,
  type CallIdRule,
  type HistoryMessage,
  modelHistory,
  reasoningOf,
  type TurnRules,
  textOf,
  writtenBy,
} from "./history/model-history.ts";
import {
  type ReasoningField,
  type StandIn,
  type TemplateMessage,
  type TemplateTool,
  type TemplateVariables,
  toTemplateMessages,
  toTemplateTools,
} from "./history/template-messages.ts";
import { TRIAL_TOOL, TRIALS, turnRulesOfRendering } from "./history/turn-rules.ts";
import { pythonQuoted } from "./jinja/operators.ts";
import { JinjaTemplate, RaisedByTemplate } from "./jinja/template.ts";
import { list, toValue, type Value } from "./jinja/values.ts";
import { Placeholders, type Span } from "./placeholders.ts";
import type { ControlTokens } from "./prompt-pieces.ts";
import type { Renderer } from "./renderers/renderer.ts";
import { RENDERERS, type RendererName } from "./renderers/renderers.ts";

export type Conversation = {
  readonly messages: readonly Message[];
  readonly tools: readonly Tool[];
  readonly reasoning: boolean;
  readonly effortVariables?: TemplateVariables;
  readonly closed?: boolean;
  /** Ascending numbers of messages whose end positions in the prompt are wanted. Default: none. */
  readonly counts?: readonly number[];
};

export type MarkedRendering = {
  readonly spans: readonly Span[];
  /** In UTF-16 units, after each requested number of messages, or the last known one before; 0 if none is. */
  readonly places: readonly number[];
};

export type ChatTemplateOptions = {
  readonly source: string;
  /** The code that writes prompts in the place of `source`. Default: none. */
  readonly renderer?: RendererName | undefined;
  readonly bosToken: string;
  readonly eosToken: string;
  readonly controlTokens: ControlTokens;
  readonly reasoningOn?: TemplateVariables;
  readonly reasoningOff?: TemplateVariables;
  /** The arguments of earlier calls: a value, or JSON text. Default: value. */
  readonly historyArguments?: "value" | "text";
  /** The field for the reasoning of earlier turns. Default: `reasoning_content`. */
  readonly historyReasoning?: ReasoningField;
  readonly callIds?: CallIdRule;
  /** The form in which tools and calls are written as text, for a template without tools. */
  readonly textCalls?: TextCalls | undefined;
};

/** Facts: `field`, the refused part, such as `messages[3]`, and `template_says`, its own message if it may be shown. */
export class TemplateRefusal extends EngineError {
  readonly says: string | undefined;

  /** Creates the error. `cause` is the original error, which is never sent: it may quote the conversation. */
  constructor(path: string, says?: string, cause?: unknown) {
    const why = says === undefined ? "" : ` It says: ${says}`;
    const facts = { field: path, ...(says === undefined ? {} : { template_says: says }) };
    super("INVALID_REQUEST", `${path}: the model's chat template does not take this.${why}`, facts, cause);
    this.says = says;
  }

  at(path: string): TemplateRefusal {
    return new TemplateRefusal(path, this.says, this.cause);
  }
}

/** Deterministic; a longer conversation's prompt begins with that of the shorter one if the template is written so. */
export class ChatTemplate {
  readonly source: string;
  readonly turns: TurnRules;
  readonly #template: Renderer;
  readonly #options: ChatTemplateOptions;
  /** Whether marks leave the prompts of trials as they are; undefined before the first wish for marks. */
  #takesMarks: boolean | undefined;
  readonly #openings = new Map<string, string>();

  /** Throws for invalid Jinja, and if the template fails for all trial conversations. */
  constructor(options: ChatTemplateOptions) {
    this.source = options.source;
    this.#options = options;
    this.#template = options.renderer ? RENDERERS[options.renderer] : this.#jinja();
    this.turns = turnRulesOfRendering((messages) => this.#tried({ messages, tools: [], reasoning: false }, ANY_ORDER));
    this.#mustRun();
  }

  /** Throws the first failure if no trial renders, unless the template itself raised one of the failures. */
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

  /** Renders the prompt up to the beginning of the answer; a last assistant text stays open. Throws `EngineError`. */
  render(conversation: Conversation): readonly Span[] {
    return this.#rendered(conversation, this.turns);
  }

  renderMarked(conversation: Conversation): MarkedRendering {
    const { counts = [] } = conversation;
    if (counts.length === 0) return { spans: this.render(conversation), places: [] };
    const unmarked = () => ({ spans: this.render(conversation), places: counts.map(() => 0) });
    if (!this.#marksKeepPrompts()) return unmarked();
    let spans: readonly Span[];
    try {
      spans = this.#rendered(conversation, this.turns, true);
    } catch {
      return unmarked();
    }
    const said = this.#said(conversation);
    const { callIds = "any" } = this.#options;
    const history = modelHistory(said, { turns: this.turns, callIds, images: false, counted: true });
    const begins = beginsOf(spans, history, this.#openingOf(conversation));
    const added = said.length - conversation.messages.length;
    const written = writtenBy(
      history,
      counts.map((count) => count + added),
    );
    return { spans, places: written.map((messages) => lastKnown(begins, messages)) };
  }

  /** Returns the template in Jinja. */
  #jinja(): Renderer {
    const template = new JinjaTemplate(this.source);
    const { bosToken, eosToken } = this.#options;
    return ({ messages, tools, variables, opensTurn, mark, quoted }) => {
      const shown = messages.map(toValue);
      const numbers = new Map<unknown, number>(shown.map(({ value }, index) => [value, index]));
      const marked = ({ value }: Value) => {
        const number = numbers.get(value);
        return number === undefined ? "" : mark(number);
      };
      const values: Record<string, Value> = { messages: list(shown) };
      const given = {
        ...{ tools: tools.length === 0 ? null : tools, documents: null, add_generation_prompt: opensTurn },
        ...variables,
        ...{ bos_token: bosToken, eos_token: eosToken },
      };
      for (const [variable, value] of Object.entries(given)) values[variable] = toValue(value);
      return template.render(values, { quote: (text) => quoted(text, pythonQuoted), mark: marked });
    };
  }

  /** Checks with trial conversations that the marks do not change the prompt. */
  #marksKeepPrompts(): boolean {
    this.#takesMarks ??= Object.values(TRIALS).every((messages) =>
      [[], [TRIAL_TOOL]].every((tools) => {
        const trial = { messages, tools, reasoning: false };
        return this.#tried(trial, this.turns, true) === this.#tried(trial, this.turns);
      }),
    );
    return this.#takesMarks;
  }

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
    // Profiles name the possible settings, so the map stays small.
    this.#openings.set(key, open.slice(shut.length));
    return this.#openings.get(key);
  }

  #tried(conversation: Conversation, turns: TurnRules, marked = false): string | undefined {
    try {
      return textOfSpans(this.#rendered(conversation, turns, marked));
    } catch {
      return undefined;
    }
  }

  /** Renders a conversation. If it is marked, empty spans stand at the beginnings of messages. */
  #rendered(conversation: Conversation, turns: TurnRules, marked = false): readonly Span[] {
    const placeholders = new Placeholders();
    // Equal texts share a placeholder, because a template may compare them.
    const held = new Map<string, string>();
    const hold = (text: string) => {
      const placeholder = held.get(text) ?? placeholders.forText(text);
      held.set(text, placeholder);
      return placeholder;
    };
    const standIn: StandIn = (text) =>
      Placeholders.mustHold(text) || !this.#options.controlTokens.isInert(text) ? hold(text) : text;
    const { callIds = "any", historyArguments, historyReasoning } = this.#options;
    const history = modelHistory(this.#said(conversation), { turns, callIds, images: false });
    const messages: TemplateMessage[] = [
      ...toTemplateMessages(history, standIn, { historyArguments, historyReasoning }),
    ];
    const tools = this.#options.textCalls ? [] : toTemplateTools(conversation.tools, standIn);
    const { closed = false } = conversation;
    const prefill = openTurn(history);
    const run = (opensTurn: boolean) => this.#run({ messages, tools, conversation, placeholders, opensTurn, marked });
    if (prefill === undefined) return run(!closed);

    const last = messages.pop();
    if (!last || prefill === "") return run(!closed);
    const mark = placeholders.forText(prefill);
    messages.push({ ...last, content: mark });
    const spans = run(false);
    const end = spans.findLastIndex(({ placeholder }) => placeholder === mark);
    if (end < 0) throw new TemplateRefusal("messages");
    return spans.slice(0, end + 1);
  }

  #said({ messages, tools }: Conversation): readonly HistoryMessage[] {
    const { textCalls } = this.#options;
    const said = withDeclaredTools(messages, tools);
    return textCalls ? withCallsAsText(said, tools, textCalls) : said;
  }

  #run({ messages, tools, conversation, placeholders, opensTurn, marked }: Run): readonly Span[] {
    const { reasoning, effortVariables } = conversation;
    const { reasoningOn, reasoningOff, renderer } = this.#options;
    let rendered: string;
    try {
      rendered = this.#template({
        ...{ messages, tools, opensTurn },
        variables: { enable_thinking: reasoning, ...(reasoning ? reasoningOn : reasoningOff), ...effortVariables },
        mark: marked ? (message) => placeholders.forMark(message) : () => "",
        quoted: (text, quote) => placeholders.quoted(text, quote),
      });
    } catch (cause) {
      throw new TemplateRefusal("messages", ownWords(cause, renderer ? undefined : this.source), cause);
    }
    const spans = placeholders.restore(rendered);
    if (!spans) throw new TemplateRefusal("messages");
    return spans;
  }
}

type Run = {
  readonly messages: readonly TemplateMessage[];
  readonly tools: readonly TemplateTool[];
  readonly conversation: Conversation;
  readonly placeholders: Placeholders;
  readonly opensTurn: boolean;
  readonly marked: boolean;
};

function textOfSpans(spans: readonly Span[]): string {
  return spans.map(({ text }) => text).join("");
}

/** Begins of messages in the prompt; undefined where a template skips or moves a message. */
function beginsOf(
  spans: readonly Span[],
  history: readonly HistoryMessage[],
  opening: string | undefined,
): readonly (number | undefined)[] {
  const begins: (number | undefined)[] = history.map(() => undefined);
  let at = 0;
  for (const { text, mark } of spans) {
    // The last loop counts: templates that scan all messages first iterate again to write them.
    if (mark !== undefined) begins[mark] = at;
    at += text.length;
  }
  const isOpened = openTurn(history) === undefined && opening !== undefined && textOfSpans(spans).endsWith(opening);
  begins.push(isOpened ? at - opening.length : undefined);
  const known = begins.filter((begin) => begin !== undefined);
  const isInOrder = known.every((begin, index) => begin >= (known[index - 1] ?? 0));
  return isInOrder ? begins : begins.map(() => undefined);
}

function lastKnown(begins: readonly (number | undefined)[], index: number): number {
  for (let at = index; at >= 0; at -= 1) {
    const begin = begins[at];
    if (begin !== undefined) return begin;
  }
  return 0;
}

/** Text that cannot contain a file name, a host or an address. */
const PLAIN_WORDS = /^(?:[A-Za-z0-9 ,;:!?'"()_-]|[A-Za-z]\/(?=[A-Za-z.])|\.(?![A-Za-z0-9])){1,200}$/;

/** Only a message that stands literally in the source, or a renderer's: a composed one may contain a caller's text. */
function ownWords(thrown: unknown, source: string | undefined): string | undefined {
  const words = thrown instanceof Error ? thrown.message : "";
  const isOwn = source === undefined ? thrown instanceof RaisedByTemplate : source.includes(words);
  return isOwn && PLAIN_WORDS.test(words) ? words : undefined;
}

/** Returns the text that the answer continues: "" for an empty last turn, undefined if the last turn is closed. */
function openTurn(messages: readonly HistoryMessage[]): string | undefined {
  const last = messages.at(-1);
  if (last?.role !== Role.ASSISTANT || last.isClosed) return undefined;
  if (last.parts.some(({ kind }) => kind?.$case === "toolCall")) return undefined;
  const text = textOf(last.parts);
  return text === "" && reasoningOf(last.parts) !== "" ? undefined : text;
}
