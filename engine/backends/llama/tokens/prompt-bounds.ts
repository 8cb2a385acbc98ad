import { type Message, type Part, Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import type { Conversation } from "../../../conversation/chat-template.ts";
import { textPart } from "../../../conversation/history/model-history.ts";
import type { PromptRenderer, RenderedPrompt } from "../../../conversation/prompt-renderer.ts";
import { EngineError } from "../../../errors.ts";

/** The number of repetitions of each message pattern in the smaller of the two conversations that are compared. */
const TIMES = 16;
/** Long, as some templates truncate. */
const SAMPLE = "Whatever is said here comes whole. ".repeat(100).trim();

export type BoundsOptions = {
  readonly renderer: PromptRenderer;
  readonly tokensOf: (prompt: RenderedPrompt) => number;
  /** Undefined if the tokenizer may drop characters. */
  readonly longestTokenBytes: number | undefined;
};

/**
 * Bounds the tokens of a prompt from below without rendering it: small conversations measure how many tokens a message
 * adds, and which roles' texts are written unchanged.
 */
export class PromptBounds {
  readonly #tokensPerMessage: number;
  readonly #longestTokenBytes: number;
  readonly #wholeRoles: ReadonlySet<Role>;

  constructor({ renderer, tokensOf, longestTokenBytes }: BoundsOptions) {
    this.#tokensPerMessage = tokensPerMessage(renderer, tokensOf);
    this.#longestTokenBytes = longestTokenBytes ?? Number.POSITIVE_INFINITY;
    this.#wholeRoles = new Set([Role.SYSTEM, Role.USER].filter((role) => isWhole(renderer, role)));
  }

  /** The bytes of the longest token, if prompts contain the text of user messages unchanged; else 0. */
  get longestTokenBytes(): number {
    const isKnown = this.#wholeRoles.has(Role.USER) && Number.isFinite(this.#longestTokenBytes);
    return isKnown ? this.#longestTokenBytes : 0;
  }

  /** Returns a lower bound of the tokens in the prompt of this conversation; it may have far more. */
  least({ messages }: Pick<Conversation, "messages">): number {
    const spoken = messages.findIndex(({ role }) => role !== Role.SYSTEM);
    // Leading system messages are joined into one, and empty ones add nothing.
    const joined = Math.max(0, (spoken < 0 ? messages.length : spoken) - 1);
    const ofMessages = Math.floor((messages.length - joined) * this.#tokensPerMessage);
    let units = 0;
    for (const [at, { role, parts }] of messages.entries()) {
      // Some templates accept a system message only as the first message.
      if (!this.#wholeRoles.has(role) || (role === Role.SYSTEM && at > 0)) continue;
      // Templates strip white space at the ends; a character has at least one byte.
      for (const { kind } of parts) if (kind?.$case === "text") units += kind.value.text.trim().length;
    }
    return Math.max(ofMessages, Math.floor(units / this.#longestTokenBytes));
  }
}

const says = (role: Role, ...parts: Part[]): Message => ({ role, parts });
const call: Part = { kind: { $case: "toolCall", value: { callId: "a", name: "a", argumentsJson: "" } } };
const result: Part = {
  kind: { $case: "toolResult", value: { callId: "a", name: "a", content: [textPart("a")], isError: false } },
};
const user = says(Role.USER, textPart("a"));

const PATTERNS: readonly (readonly Message[])[] = [
  [user, says(Role.ASSISTANT, textPart("a"))],
  [says(Role.USER, textPart("")), says(Role.ASSISTANT, textPart(""))],
  [user],
  [says(Role.USER)],
  [says(Role.ASSISTANT, textPart("a"))],
  [says(Role.ASSISTANT)],
  [says(Role.SYSTEM, textPart("a"))],
  [says(Role.SYSTEM)],
  [says(Role.ASSISTANT, call), says(Role.TOOL, result)],
  [says(Role.TOOL, result)],
];

/** 0 if the template rejects the first pattern. */
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

function isWhole(renderer: PromptRenderer, role: Role): boolean {
  const first = says(role, textPart(SAMPLE));
  const rest = Array.from({ length: TIMES }, () => [user, says(Role.ASSISTANT, textPart("a"))]).flat();
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
