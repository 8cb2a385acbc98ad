import { type Event, FinishReason, type TokenLogprob } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { OutputParser, type OutputParserOptions } from "../output-parser/output-parser.ts";
import { argumentTypes } from "../tool-calls/argument-types.ts";
import { JsonScanner } from "../tool-calls/json-scanner.ts";
import type { AnswerPlan } from "./answer-plan.ts";

/** Changes texts that arrive in pieces; `end` returns the held rest of a text. */
type TextFilter = { push(piece: string): string; end(): string };

export type TokenAnswerOptions = Pick<
  OutputParserOptions,
  "markers" | "startsInReasoning" | "callIds" | "onFault" | "areGeneric"
> & {
  readonly plan: AnswerPlan;
  /** Restores spellings of special tokens that were broken in the prompt. Default: none were. */
  readonly mending?: TextFilter;
  /** Whether reasoning is dropped, for a model that reasons although the caller disabled it. Default: false. */
  readonly hideReasoning?: boolean;
};

const UNCHANGED: TextFilter = { push: (piece) => piece, end: () => "" };

/** Builds one answer from tokens and their text: canonical events that end where the request's plan wants. */
export class TokenAnswer {
  readonly #parser: OutputParser;
  readonly #mending: TextFilter;
  readonly #hidesReasoning: boolean;
  readonly #reasoningBudget: number;
  /** Reads the JSON that the visible text must be; undefined for free text. */
  readonly #json: JsonScanner | undefined;
  #jsonIsWhole = false;
  #inText = false;
  /** The number of tokens so far, without the model's end token. */
  outputTokens = 0;
  /** The number of tokens at whose end or beginning the answer was in its reasoning. */
  reasoningTokens = 0;
  /** The number of dropped blocks of reasoning, and whether the open block is one. */
  #hidden = 0;
  #inHidden = false;
  /** The log probabilities of tokens whose text is still held back. */
  #logprobs: TokenLogprob[] = [];

  constructor({ plan, mending = UNCHANGED, hideReasoning = false, ...options }: TokenAnswerOptions) {
    const { callable, maxCalls, stop, newCallId, json, reasoningBudget } = plan;
    const toolNames = callable.map(({ name }) => name);
    const calls = { toolNames, argumentTypes: argumentTypes(callable), maxToolCalls: maxCalls, newCallId };
    this.#parser = new OutputParser({ ...options, ...calls, stop });
    this.#mending = mending;
    this.#hidesReasoning = hideReasoning;
    this.#reasoningBudget = reasoningBudget;
    this.#json = json && new JsonScanner({ root: json });
  }

  get inReasoning(): boolean {
    return this.#parser.inReasoning;
  }

  get matchedStop(): string | undefined {
    return this.#parser.matchedStop;
  }

  /** The number of tokens that the reasoning may still have; Infinity outside it, and without a budget. */
  get reasoningTokensLeft(): number {
    return this.#parser.inReasoning ? this.#reasoningBudget - this.reasoningTokens : Number.POSITIVE_INFINITY;
  }

  get reasonedEnough(): boolean {
    return this.reasoningTokensLeft <= 0;
  }

  /** Whether the answer is complete, although the model might continue. */
  get isComplete(): boolean {
    return this.#parser.matchedStop !== undefined || this.#parser.wantsNoMore || this.#jsonIsWhole;
  }

  /** Takes `tokens` tokens with their text, of which some may be held back. */
  push(tokens: number, text: string, logprobs: readonly TokenLogprob[] = []): readonly Event[] {
    this.outputTokens += tokens;
    const wasReasoning = this.#parser.inReasoning;
    if (logprobs.length > 0) this.#logprobs.push(...logprobs);
    const events = text === "" ? [] : this.#parser.push(text, this.#logprobs);
    if (text !== "" && this.#logprobs.length > 0) this.#logprobs = [];
    if (wasReasoning || this.#parser.inReasoning) this.reasoningTokens += tokens;
    return this.#said(events);
  }

  /** Returns the last events. `cut` means that the answer was truncated by a token limit. */
  end(cut: boolean): readonly Event[] {
    return this.#said(this.#parser.end(cut ? "cut" : "stop"));
  }

  /** Returns the finish reason, that of calls for a broken one too. `limit` is the reason of a truncated answer. */
  finishReason(limit: FinishReason | undefined): FinishReason {
    if (this.#parser.matchedStop !== undefined) return FinishReason.STOP_SEQUENCE;
    if (limit !== undefined) return limit;
    return this.#parser.endedCalls > 0 ? FinishReason.TOOL_CALLS : FinishReason.STOP;
  }

  #said(events: readonly Event[]): readonly Event[] {
    const said: Event[] = [];
    for (const event of events) this.#say(event, said);
    return said;
  }

  /** Adds an event to `said`: restores broken spellings, drops hidden reasoning, and looks for the end of a JSON text. */
  #say(event: Event, said: Event[]): void {
    const { kind } = event;
    if (kind?.$case === "blockStarted") {
      const block = kind.value.block?.$case;
      this.#inText = block === "text";
      this.#inHidden = this.#hidesReasoning && block === "reasoning";
      if (this.#inHidden) this.#hidden += 1;
      else said.push({ kind: { ...kind, value: { ...kind.value, index: kind.value.index - this.#hidden } } });
    } else if (this.#inHidden) return;
    else if (kind?.$case === "blockDelta") {
      const { text, logprobs } = kind.value;
      if (this.#inText && this.#json?.push(text).state === "complete") this.#jsonIsWhole = true;
      this.#appendText(this.#mending.push(text), kind.value.index, logprobs, said);
    } else if (kind?.$case === "blockEnded") {
      this.#appendText(this.#mending.end(), kind.value.index, [], said);
      said.push({ kind: { ...kind, value: { ...kind.value, index: kind.value.index - this.#hidden } } });
    } else said.push(event);
  }

  /** Adds a delta with the index that its block has without the dropped ones. */
  #appendText(text: string, index: number, logprobs: readonly TokenLogprob[], said: Event[]): void {
    if (text === "" && logprobs.length === 0) return;
    said.push({ kind: { $case: "blockDelta", value: { index: index - this.#hidden, text, logprobs } } });
  }
}
