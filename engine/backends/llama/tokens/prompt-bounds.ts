import { type Message, type Part, Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import type { Conversation } from "../../../conversation/chat-template.ts";
import type { PromptRenderer, RenderedPrompt } from "../../../conversation/prompt-renderer.ts";
import { EngineError } from "../../../errors.ts";

/**
 * The number of times that each pattern of messages stands in the smaller of the two conversations that are compared.
 */
const TIMES = 16;
/** The text by which it is found out whose texts a template writes whole: long, as some might be cut. */
const SAMPLE = "Whatever is said here comes whole. ".repeat(100).trim();

/** What a model's prompts are measured with. */
export type BoundsOptions = {
  /** Renders the prompts of the model. */
  readonly renderer: PromptRenderer;
  /** Returns the number of tokens of a rendered prompt. */
  readonly tokensOf: (prompt: RenderedPrompt) => number;
  /**
   * The bytes of the longest token, where no text has fewer tokens than its bytes divided by this; undefined where the
   * tokenizer may leave characters out.
   */
  readonly longestTokenBytes: number | undefined;
};

/**
 * Knows how many tokens the prompt of a conversation has at least, from what is seen without rendering it. What cannot
 * fit the window is refused before it costs anything. Nothing is presumed of the template: by rendering small
 * conversations it is measured how many tokens a further message of any kind adds at least, and whose texts come whole.
 * A template that leaves messages out adds none, and bounds nothing.
 */
export class PromptBounds {
  readonly #tokensPerMessage: number;
  readonly #longestTokenBytes: number;
  readonly #wholeRoles: ReadonlySet<Role>;

  /** Measures the prompts of a model, which takes some milliseconds. */
  constructor({ renderer, tokensOf, longestTokenBytes }: BoundsOptions) {
    this.#tokensPerMessage = tokensPerMessage(renderer, tokensOf);
    this.#longestTokenBytes = longestTokenBytes ?? Number.POSITIVE_INFINITY;
    this.#wholeRoles = new Set([Role.SYSTEM, Role.USER].filter((role) => isWhole(renderer, role)));
  }

  /** The bytes of the longest token, where the text of user messages comes whole into a prompt; else 0. */
  get longestTokenBytes(): number {
    const isKnown = this.#wholeRoles.has(Role.USER) && Number.isFinite(this.#longestTokenBytes);
    return isKnown ? this.#longestTokenBytes : 0;
  }

  /** Returns a number of tokens that the prompt of this conversation has at least; it may have far more. */
  least({ messages }: Pick<Conversation, "messages">): number {
    const spoken = messages.findIndex(({ role }) => role !== Role.SYSTEM);
    // System messages at the beginning become one, and those of them that say nothing add nothing.
    const joined = Math.max(0, (spoken < 0 ? messages.length : spoken) - 1);
    const ofMessages = Math.floor((messages.length - joined) * this.#tokensPerMessage);
    let units = 0;
    for (const [at, { role, parts }] of messages.entries()) {
      // Some templates know a system message as the first one only.
      if (!this.#wholeRoles.has(role) || (role === Role.SYSTEM && at > 0)) continue;
      // White space at the ends is what templates take off; a character has a byte at least.
      for (const { kind } of parts) if (kind?.$case === "text") units += kind.value.text.trim().length;
    }
    return Math.max(ofMessages, Math.floor(units / this.#longestTokenBytes));
  }
}

const text = (value: string): Part => ({ kind: { $case: "text", value: { text: value } }, cacheBreakpoint: undefined });
const says = (role: Role, ...parts: Part[]): Message => ({ role, parts });
const call: Part = {
  kind: { $case: "toolCall", value: { callId: "a", name: "a", argumentsJson: "" } },
  cacheBreakpoint: undefined,
};
const result: Part = {
  kind: { $case: "toolResult", value: { callId: "a", name: "a", content: [text("a")], isError: false } },
  cacheBreakpoint: undefined,
};
const user = says(Role.USER, text("a"));

/** The patterns of messages that may follow one another in a conversation, the shortest that there are. */
const PATTERNS: readonly (readonly Message[])[] = [
  [user, says(Role.ASSISTANT, text("a"))],
  [says(Role.USER, text("")), says(Role.ASSISTANT, text(""))],
  [user],
  [says(Role.USER)],
  [says(Role.ASSISTANT, text("a"))],
  [says(Role.ASSISTANT)],
  [says(Role.SYSTEM, text("a"))],
  [says(Role.SYSTEM)],
  [says(Role.ASSISTANT, call), says(Role.TOOL, result)],
  [says(Role.TOOL, result)],
];

/**
 * Returns the least that a further message adds, of all patterns that the template takes; 0 where it takes not even the
 * first.
 */
function tokensPerMessage(renderer: PromptRenderer, tokensOf: BoundsOptions["tokensOf"]): number {
  const size = (pattern: readonly Message[], times: number) => {
    const repeated = Array.from({ length: times }, () => pattern).flat();
    const prompt = rendered(renderer, [user, ...repeated, user]);
    return prompt && tokensOf(prompt);
  };
  const added = PATTERNS.map((pattern) => {
    const [small, large] = [size(pattern, TIMES), size(pattern, 2 * TIMES)];
    return small === undefined || large === undefined ? undefined : (large - small) / (TIMES * pattern.length);
  });
  if (added[0] === undefined) return 0;
  return Math.max(0, Math.min(...added.filter((tokens) => tokens !== undefined)));
}

/** Returns whether the texts of a role come whole, be they far from the end of the conversation. */
function isWhole(renderer: PromptRenderer, role: Role): boolean {
  const first = says(role, text(SAMPLE));
  const rest = Array.from({ length: TIMES }, () => [user, says(Role.ASSISTANT, text("a"))]).flat();
  return (
    rendered(renderer, [first, ...(role === Role.USER ? rest.slice(1) : rest), user])?.text.includes(SAMPLE) ?? false
  );
}

function rendered(renderer: PromptRenderer, messages: readonly Message[]): RenderedPrompt | undefined {
  try {
    return renderer.render({ messages, tools: [], reasoning: false });
  } catch (error) {
    if (error instanceof EngineError) return undefined;
    throw error;
  }
}
