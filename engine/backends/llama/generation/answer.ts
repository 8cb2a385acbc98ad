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
  /** The JSON root that the visible text must have; undefined for free text. The answer ends behind it. */
  readonly json: "any" | "object" | undefined;
  readonly followsCalls: boolean;
  readonly reasoningBudget: number;
};

export class Answer {
  readonly #parser: OutputParser;
  readonly #characters: Utf8Holder<Token>;
  readonly #text: JsonScanner | undefined;
  readonly #followsCalls: boolean;
  readonly #reasoningBudget: number;
  #logprobs: TokenLogprob[] = [];
  #outputTokens = 0;
  #reasoningTokens = 0;
  #jsonIsWhole = false;
  #json: JsonScanner | undefined;

  constructor(options: AnswerOptions) {
    this.#parser = options.parser;
    this.#characters = options.characters;
    this.#text = options.json && new JsonScanner({ root: options.json });
    this.#followsCalls = options.followsCalls;
    this.#reasoningBudget = options.reasoningBudget;
  }

  /** The number of tokens so far, without an end-of-generation token. */
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

  get reasonedEnough(): boolean {
    return this.#parser.inReasoning && this.#reasoningTokens >= this.#reasoningBudget;
  }

  get json(): JsonScanner | undefined {
    return this.#json;
  }

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

  /** Returns the last events. `cut` means that the answer was truncated by a token limit. */
  end(cut: boolean): readonly Event[] {
    const rest = this.#take(this.#characters.flush());
    return [...rest, ...this.#parser.end(cut ? "cut" : "stop")];
  }

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
