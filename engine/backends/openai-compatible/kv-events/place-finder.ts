import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import type { GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, type Part, Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import type { PrefixMark } from "../../../prefixes/prefix-marks.ts";

/** The most places that wait to be found, and the most tokens of their prompts together. */
const MAX_WAITING = { places: 64, tokens: 4_000_000 };
/** The places of one prompt that are looked for: so many from its beginning, and so many before its end. */
const LOOKED_FOR = { first: 2, last: 2 };
/** The pause behind each question, as a multiple of the time that it took: the engine has other work. */
const PAUSE = 4;

/** A prompt in which places are to be found. */
export type SearchedPrompt = {
  /** The request of the prompt. */
  readonly request: GenerateRequest;
  /** The tokens of the prompt. */
  readonly tokens: ArrayLike<number>;
  /** Called with each place that was found: the number of tokens of the prompt up to it. */
  readonly onFound: (mark: PrefixMark, tokens: number) => void;
};

/**
 * Finds where in its tokens a prompt's messages end: has the engine tokenize the beginning of the conversation, and
 * compares. It asks one question at a time, with pauses, and not of all places: whatever waits too long is forgotten.
 */
export class PlaceFinder {
  readonly #clock: Clock;
  readonly #tokensOf: (request: GenerateRequest) => Promise<ArrayLike<number>>;
  #waiting: { readonly prompt: SearchedPrompt; readonly mark: PrefixMark }[] = [];
  #isBusy = false;
  #cancelPause: () => void = () => {};

  /** Makes a finder that asks by `tokensOf`, which resolves to the tokens of a request's prompt. */
  constructor(clock: Clock, tokensOf: (request: GenerateRequest) => Promise<ArrayLike<number>>) {
    this.#clock = clock;
    this.#tokensOf = tokensOf;
  }

  /** Has places looked for, of which none is the end of the prompt. */
  find(prompt: SearchedPrompt, marks: readonly PrefixMark[]): void {
    const { first, last } = LOOKED_FOR;
    const wanted = marks.filter((_, index) => index < first || index >= marks.length - last);
    this.#waiting.push(...wanted.map((mark) => ({ prompt, mark })));
    let tokens = this.#waiting.reduce((sum, one) => sum + one.prompt.tokens.length, 0);
    while (this.#waiting.length > MAX_WAITING.places || tokens > MAX_WAITING.tokens)
      tokens -= this.#waiting.shift()?.prompt.tokens.length ?? 0;
    if (!this.#isBusy) void this.#ask();
  }

  /** Forgets what waits. */
  close(): void {
    this.#waiting = [];
    this.#cancelPause();
  }

  async #ask(): Promise<void> {
    // The newest conversation is the likeliest to go on.
    const next = this.#waiting.pop();
    this.#isBusy = next !== undefined;
    if (!next) return;
    const { prompt, mark } = next;
    const beganMs = this.#clock.nowMs();
    try {
      const tokens = await this.#tokensOf({ ...prompt.request, messages: upTo(prompt.request.messages, mark) });
      prompt.onFound(mark, commonLength(tokens, prompt.tokens));
    } catch {
      // The template does not take a conversation that ends there: then the place stays unknown.
    }
    const pauseMs = PAUSE * (this.#clock.nowMs() - beganMs);
    this.#cancelPause = this.#clock.after(pauseMs, () => void this.#ask());
  }
}

/**
 * Returns the messages up to a place, and one of the next one's role that begins otherwise: templates look at what
 * follows, and the tokens are the same up to where that begins. An answer is left to the template to open.
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
