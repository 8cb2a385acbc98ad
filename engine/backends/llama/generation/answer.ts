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
  /** Whether the arguments of calls are followed as the JSON that they are. */
  readonly followsCalls: boolean;
  /** The number of tokens that the model may reason for; Infinity without a bound. */
  readonly reasoningBudget: number;
};

/** Builds one answer as it grows: tokens go in, events come out. */
export class Answer {
  readonly #parser: OutputParser;
  readonly #characters: Utf8Holder<Token>;
  /** The JSON of the visible text. */
  readonly #text: JsonScanner | undefined;
  readonly #followsCalls: boolean;
  readonly #reasoningBudget: number;
  #logprobs: TokenLogprob[] = [];
  #outputTokens = 0;
  #reasoningTokens = 0;
  #jsonIsWhole = false;
  #json: JsonScanner | undefined;

  /** Makes an empty answer. */
  constructor(options: AnswerOptions) {
    this.#parser = options.parser;
    this.#characters = options.characters;
    this.#text = options.json && new JsonScanner({ root: options.json });
    this.#followsCalls = options.followsCalls;
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

  /** The JSON that the answer is in, of a text or of the arguments of a call; undefined where it is in none. */
  get json(): JsonScanner | undefined {
    return this.#json;
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
    if (this.#text || this.#followsCalls) this.#scan(events);
    return events;
  }

  #scan(events: readonly Event[]): void {
    for (const { kind } of events) {
      if (kind?.$case === "blockStarted") this.#json = this.#jsonIn(kind.value.block?.$case);
      else if (kind?.$case === "blockEnded") this.#json = undefined;
      else if (kind?.$case === "blockDelta" && this.#json?.push(kind.value.text).state === "complete")
        this.#jsonIsWhole ||= this.#json === this.#text;
    }
  }

  #jsonIn(block: "text" | "reasoning" | "toolCall" | undefined): JsonScanner | undefined {
    if (block === "text") return this.#text;
    return block === "toolCall" && this.#followsCalls ? new JsonScanner({ root: "object" }) : undefined;
  }
}
