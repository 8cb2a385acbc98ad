import type { Token } from "node-llama-cpp";
import {
  type Event,
  FinishReason,
  type TokenLogprob,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { OutputParser } from "../../../output-parser/output-parser.ts";
import { JsonScanner } from "../../../tool-calls/readers/json-scanner.ts";
import type { Utf8Holder } from "../tokens/utf8-holder.ts";

/** What an answer is made of. */
export type AnswerOptions = {
  /** Turns text into blocks. */
  readonly parser: OutputParser;
  /** Turns tokens into text. */
  readonly characters: Utf8Holder<Token>;
  /** The kind of JSON value that the visible text has to be, with nothing behind it; undefined where it is free. */
  readonly json: "any" | "object" | undefined;
  /** The number of tokens that the model may reason for; Infinity without a bound. */
  readonly reasoningBudget: number;
};

/** Builds one answer as it grows: tokens go in, events come out. */
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

  /** Makes an empty answer. */
  constructor(options: AnswerOptions) {
    this.#parser = options.parser;
    this.#characters = options.characters;
    this.#json = options.json && new JsonScanner({ root: options.json });
    this.#reasoningBudget = options.reasoningBudget;
  }

  /** The number of tokens so far, without the one that ends the answer. */
  get outputTokens(): number {
    return this.#outputTokens;
  }

  /** The number of tokens of the reasoning so far. */
  get reasoningTokens(): number {
    return this.#reasoningTokens;
  }

  /** The stop string that has ended the answer; undefined while none has. */
  get matchedStop(): string | undefined {
    return this.#parser.matchedStop;
  }

  /** Whether the model is reasoning now. */
  get inReasoning(): boolean {
    return this.#parser.inReasoning;
  }

  /** Whether the model is reasoning and has done so for as long as it may. */
  get reasonedEnough(): boolean {
    return this.#parser.inReasoning && this.#reasoningTokens >= this.#reasoningBudget;
  }

  /** Whether the answer has to be JSON, and stands inside a string of it. */
  get isInJsonString(): boolean {
    return this.#json?.isInString ?? false;
  }

  /** Whether nothing more is wanted, although the model might go on. */
  get isComplete(): boolean {
    return this.#parser.matchedStop !== undefined || this.#parser.wantsNoMore || this.#jsonIsWhole;
  }

  /** Takes the next token, and returns the events that are certain now. */
  push(token: Token, logprob?: TokenLogprob): readonly Event[] {
    this.#outputTokens += 1;
    if (logprob) this.#logprobs.push(logprob);
    const wasReasoning = this.#parser.inReasoning;
    const events = this.#take(this.#characters.push(token));
    if (wasReasoning || this.#parser.inReasoning) this.#reasoningTokens += 1;
    return events;
  }

  /** Returns the last events. `cut` says that the answer ends for want of tokens, not because it was over. */
  end(cut: boolean): readonly Event[] {
    const rest = this.#take(this.#characters.flush());
    return [...rest, ...this.#parser.end(cut ? "cut" : "stop")];
  }

  /** Returns why the answer ended. `limit` is the reason when it was cut. */
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
