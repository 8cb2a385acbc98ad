import type { Token } from "node-llama-cpp";
import {
  type Event,
  FinishReason,
  type TokenLogprob,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { notOfThisAnswer } from "../../../errors.ts";
import type { OutputParser } from "../../../output-parser/output-parser.ts";
import { JsonScanner } from "../../../tool-calls/json-scanner.ts";
import type { OutputLimit } from "../../request-plan.ts";
import type { GrammarGate } from "../grammar-gate.ts";
import type { Utf8Holder } from "../tokens/vocabulary.ts";

type AnswerOptions = OutputLimit & {
  readonly parser: OutputParser;
  readonly characters: Utf8Holder<Token>;
  /** The JSON root that the visible text must have; undefined for free text. The answer ends behind it. */
  readonly json: "any" | "object" | undefined;
  readonly reasoningBudget: number;
  readonly reasoningEnd: readonly Token[];
  readonly gate: GrammarGate;
  readonly generated: Token[];
  readonly given: readonly Token[];
};

export type AnswerStep = {
  /** The events that are certain now. May be empty: a token can be a part of a character or of a marker. */
  readonly events: readonly Event[];
  readonly tokens: readonly Token[];
};

export class Answer {
  readonly #options: AnswerOptions;
  readonly #parser: OutputParser;
  readonly #text: JsonScanner | undefined;
  cut: FinishReason | undefined;
  reasoningTokens = 0;
  #logprobs: TokenLogprob[] = [];
  #jsonIsWhole = false;
  #isInText = false;

  constructor(options: AnswerOptions) {
    this.#options = options;
    this.#parser = options.parser;
    this.#text = options.json && new JsonScanner({ root: options.json });
  }

  /** The number of tokens so far, without an end-of-generation token. */
  get outputTokens(): number {
    return this.#options.generated.length;
  }

  get matchedStop(): string | undefined {
    return this.#parser.matchedStop;
  }

  get over(): boolean {
    return this.cut !== undefined || this.#isComplete;
  }

  /** The next token that an earlier call made; undefined once all were taken. */
  get given(): Token | undefined {
    return this.#options.given[this.outputTokens];
  }

  get room(): number {
    return Math.max(0, this.#options.maxOutputTokens - this.outputTokens);
  }

  take(token: Token, logprob?: TokenLogprob): AnswerStep {
    const { limitReason, reasoningBudget } = this.#options;
    const events = [...this.#push(token, logprob)];
    const tokens = [token];
    if (this.#isComplete) return { events, tokens };
    if (this.#parser.inReasoning && this.reasoningTokens >= reasoningBudget) {
      const written = this.#endReasoning();
      tokens.push(...written);
      events.push(...written.flatMap((one) => this.#push(one)));
    }
    if (this.room === 0) this.cut = limitReason;
    return { events, tokens };
  }

  /** Takes the next given token. Throws `EngineError` INVALID_REQUEST if this answer could not have it there. */
  takeGiven(logprob?: TokenLogprob): AnswerStep {
    const { gate, given } = this.#options;
    const from = this.outputTokens;
    const token = given[from];
    if (token === undefined || this.over || !gate.take(token)) throw notOfThisAnswer();
    const step = this.take(token, logprob);
    const differs = step.tokens.some((one, at) => from + at < given.length && given[from + at] !== one);
    if (differs || (this.over && this.given !== undefined)) throw notOfThisAnswer();
    return step;
  }

  end(): readonly Event[] {
    const rest = this.#read(this.#options.characters.flush());
    return [...rest, ...this.#parser.end(this.cut === undefined ? "stop" : "cut")];
  }

  finishReason(): FinishReason {
    if (this.#parser.matchedStop !== undefined) return FinishReason.STOP_SEQUENCE;
    if (this.cut !== undefined) return this.cut;
    return this.#parser.finishedToolCalls > 0 ? FinishReason.TOOL_CALLS : FinishReason.STOP;
  }

  get #isComplete(): boolean {
    return this.#parser.matchedStop !== undefined || this.#parser.wantsNoMore || this.#jsonIsWhole;
  }

  #endReasoning(): readonly Token[] {
    const { gate, reasoningEnd } = this.#options;
    gate.reasoningEnded();
    return reasoningEnd.slice(0, this.room);
  }

  #push(token: Token, logprob?: TokenLogprob): readonly Event[] {
    this.#options.generated.push(token);
    if (logprob) this.#logprobs.push(logprob);
    const wasReasoning = this.#parser.inReasoning;
    const events = this.#read(this.#options.characters.push(token));
    if (wasReasoning || this.#parser.inReasoning) this.reasoningTokens += 1;
    return events;
  }

  #read(text: string): readonly Event[] {
    if (text === "") return [];
    const logprobs = this.#logprobs;
    this.#logprobs = [];
    const events = this.#parser.push(text, logprobs);
    if (this.#text) this.#scan(this.#text, events);
    return events;
  }

  #scan(json: JsonScanner, events: readonly Event[]): void {
    for (const { kind } of events) {
      if (kind?.$case === "blockStarted") this.#isInText = kind.value.block?.$case === "text";
      else if (kind?.$case === "blockDelta" && this.#isInText)
        this.#jsonIsWhole ||= json.push(kind.value.text).state === "complete";
    }
  }
}
