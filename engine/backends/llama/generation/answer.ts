import type { Token } from "node-llama-cpp";
import {
  type Event,
  FinishReason,
  type TokenLogprob,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { OutputParser } from "../../../output-parser/output-parser.ts";
import { JsonScanner } from "../../../tool-calls/readers/json-scanner.ts";
import type { Utf8Holder } from "../tokens/utf8-holder.ts";

export type AnswerOptions = {
  readonly parser: OutputParser;
  readonly characters: Utf8Holder<Token>;
  /** The visible text is to be one JSON value of this kind, and nothing after it. */
  readonly json: "any" | "object" | undefined;
  /** Tokens the model may reason for. */
  readonly reasoningBudget: number;
};

/** One answer as it grows: tokens in, events out. */
export class Answer {
  readonly #parser: OutputParser;
  readonly #characters: Utf8Holder<Token>;
  readonly #json: JsonScanner | undefined;
  readonly #reasoningBudget: number;
  #logprobs: TokenLogprob[] = [];
  #outputTokens = 0;
  #reasoningTokens = 0;
  #jsonIsWhole = false;
  #textBlock: number | undefined;

  constructor(options: AnswerOptions) {
    this.#parser = options.parser;
    this.#characters = options.characters;
    this.#json = options.json && new JsonScanner({ root: options.json });
    this.#reasoningBudget = options.reasoningBudget;
  }

  /** Without the token that ends the answer. */
  get outputTokens(): number {
    return this.#outputTokens;
  }

  get reasoningTokens(): number {
    return this.#reasoningTokens;
  }

  get matchedStop(): string | undefined {
    return this.#parser.matchedStop;
  }

  get inReasoning(): boolean {
    return this.#parser.inReasoning;
  }

  /** The model has reasoned for as long as it may. */
  get reasonedEnough(): boolean {
    return this.#parser.inReasoning && this.#reasoningTokens >= this.#reasoningBudget;
  }

  /** Whether nothing more is wanted, although the model might go on. */
  get isComplete(): boolean {
    return this.#parser.matchedStop !== undefined || this.#parser.wantsNoMore || this.#jsonIsWhole;
  }

  push(token: Token, logprob?: TokenLogprob): readonly Event[] {
    this.#outputTokens += 1;
    if (logprob) this.#logprobs.push(logprob);
    const wasReasoning = this.#parser.inReasoning;
    const events = this.#take(this.#characters.push(token));
    if (wasReasoning || this.#parser.inReasoning) this.#reasoningTokens += 1;
    return events;
  }

  /** The last events. `cut`: for want of tokens, not because the answer was over. */
  end(cut: boolean): readonly Event[] {
    const rest = this.#take(this.#characters.flush());
    return [...rest, ...this.#parser.end(cut ? "cut" : "stop")];
  }

  /** Why the answer ended; `limit` is the reason when it was cut. */
  finishReason(limit: FinishReason | undefined): FinishReason {
    if (this.#parser.matchedStop !== undefined) return FinishReason.STOP_SEQUENCE;
    if (limit !== undefined) return limit;
    return this.#parser.finishedToolCalls > 0 ? FinishReason.TOOL_CALLS : FinishReason.STOP;
  }

  #take(text: string): readonly Event[] {
    if (text === "") return [];
    const logprobs = this.#logprobs;
    this.#logprobs = [];
    const events = this.#parser.push(text, logprobs);
    if (this.#json) this.#scan(this.#json, events);
    return events;
  }

  #scan(json: JsonScanner, events: readonly Event[]): void {
    for (const { kind } of events) {
      if (kind?.$case === "blockStarted" && kind.value.block?.$case === "text") this.#textBlock = kind.value.index;
      if (kind?.$case !== "blockDelta" || kind.value.index !== this.#textBlock) continue;
      if (json.push(kind.value.text).state === "complete") this.#jsonIsWhole = true;
    }
  }
}
