import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import type { GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, type Part, Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import type { PrefixMark } from "../../../prefixes/prefix-marks.ts";

/** The most positions in the queue, and the most tokens of their prompts. */
const MAX_WAITING = { places: 64, tokens: 4_000_000 };
/** The positions of one prompt that are searched: so many from its beginning, and so many before its end. */
const LOOKED_FOR = { first: 2, last: 2 };
/** The pause after each request, as a multiple of its duration: the engine has other work. */
const PAUSE = 4;

export type SearchedPrompt = {
  readonly request: GenerateRequest;
  readonly tokens: ArrayLike<number>;
  /** Called with each position, as a number of prompt tokens. */
  readonly onFound: (mark: PrefixMark, tokens: number) => void;
};

/**
 * Finds the token positions at which a prompt's messages end: the engine tokenizes the beginning of the conversation,
 * and the result is compared. It sends one request at a time, with pauses, and not for all positions; those that wait
 * too long are dropped.
 */
export class PlaceFinder {
  readonly #clock: Clock;
  readonly #tokensOf: (request: GenerateRequest) => Promise<ArrayLike<number>>;
  #waiting: { readonly prompt: SearchedPrompt; readonly mark: PrefixMark }[] = [];
  #isBusy = false;
  #cancelPause: () => void = () => {};

  constructor(clock: Clock, tokensOf: (request: GenerateRequest) => Promise<ArrayLike<number>>) {
    this.#clock = clock;
    this.#tokensOf = tokensOf;
  }

  /** Queues positions, none of which is the end of the prompt. */
  find(prompt: SearchedPrompt, marks: readonly PrefixMark[]): void {
    const { first, last } = LOOKED_FOR;
    const wanted = marks.filter((_, index) => index < first || index >= marks.length - last);
    this.#waiting.push(...wanted.map((mark) => ({ prompt, mark })));
    let tokens = this.#waiting.reduce((sum, one) => sum + one.prompt.tokens.length, 0);
    while (this.#waiting.length > MAX_WAITING.places || tokens > MAX_WAITING.tokens)
      tokens -= this.#waiting.shift()?.prompt.tokens.length ?? 0;
    if (!this.#isBusy) void this.#ask();
  }

  close(): void {
    this.#waiting = [];
    this.#cancelPause();
  }

  async #ask(): Promise<void> {
    // The newest conversation is the most likely to continue.
    const next = this.#waiting.pop();
    this.#isBusy = next !== undefined;
    if (!next) return;
    const { prompt, mark } = next;
    const beganMs = this.#clock.nowMs();
    try {
      const tokens = await this.#tokensOf({ ...prompt.request, messages: upTo(prompt.request.messages, mark) });
      prompt.onFound(mark, commonLength(tokens, prompt.tokens));
    } catch {
      // The template rejects a conversation that ends there: the position stays unknown.
    }
    const pauseMs = PAUSE * (this.#clock.nowMs() - beganMs);
    this.#cancelPause = this.#clock.after(pauseMs, () => void this.#ask());
  }
}

/**
 * Returns the messages up to a position, and a different one with the role of the next: templates depend on the
 * following message, and the tokens are the same up to its text. An answer is opened by the template.
 */
function upTo(messages: readonly Message[], mark: PrefixMark): readonly Message[] {
  const before = messages.slice(0, mark.messages);
  const next = messages[mark.messages];
  const [part] = next?.parts ?? [];
  if (!next || !part || next.role === Role.ASSISTANT) return before;
  const kind = part.kind;
  const content = kind?.$case === "toolResult" ? kind.value.content : next.parts;
  const other = textPart(beginsWith(content, "0") ? "1" : "0");
  if (kind?.$case !== "toolResult") return [...before, { ...next, parts: [other] }];
  const result: Part = { ...part, kind: { $case: "toolResult", value: { ...kind.value, content: [other] } } };
  return [...before, { ...next, parts: [result] }];
}

function beginsWith([first]: readonly Part[], text: string): boolean {
  return first?.kind?.$case === "text" && first.kind.value.text.trimStart().startsWith(text);
}

function textPart(text: string): Part {
  return { kind: { $case: "text", value: { text } } };
}

function commonLength(some: ArrayLike<number>, others: ArrayLike<number>): number {
  const most = Math.min(some.length, others.length);
  for (let at = 0; at < most; at += 1) if (some[at] !== others[at]) return at;
  return most;
}
