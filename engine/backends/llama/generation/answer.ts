import type { Token } from "node-llama-cpp";
import type { Event, FinishReason, TokenLogprob } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { notOfThisAnswer } from "../../../errors.ts";
import type { OutputLimit } from "../../request-plan.ts";
import type { TokenAnswer } from "../../token-answer.ts";
import type { Utf8Holder } from "../tokens/vocabulary.ts";
import type { AnswerGrammar } from "./answer-grammar.ts";

type AnswerOptions = OutputLimit & {
  readonly answer: TokenAnswer;
  readonly characters: Utf8Holder<Token>;
  readonly reasoningEnd: readonly Token[];
  readonly grammar: AnswerGrammar;
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
  readonly #answer: TokenAnswer;
  cut: FinishReason | undefined;

  constructor(options: AnswerOptions) {
    this.#options = options;
    this.#answer = options.answer;
  }

  /** The number of tokens so far, without an end-of-generation token. */
  get outputTokens(): number {
    return this.#options.generated.length;
  }

  get reasoningTokens(): number {
    return this.#answer.reasoningTokens;
  }

  get matchedStop(): string | undefined {
    return this.#answer.matchedStop;
  }

  get over(): boolean {
    return this.cut !== undefined || this.#answer.isComplete;
  }

  /** The next token that an earlier call made; undefined once all were taken. */
  get given(): Token | undefined {
    return this.#options.given[this.outputTokens];
  }

  get tokensLeft(): number {
    return Math.max(0, this.#options.maxOutputTokens - this.outputTokens);
  }

  take(token: Token, logprob?: TokenLogprob): AnswerStep {
    const events = [...this.#push(token, logprob)];
    const tokens = [token];
    if (this.#answer.isComplete) return { events, tokens };
    if (this.#answer.reasonedEnough) {
      const written = this.#endReasoning();
      tokens.push(...written);
      events.push(...written.flatMap((one) => this.#push(one)));
    }
    if (this.tokensLeft === 0) this.cut = this.#options.limitReason;
    return { events, tokens };
  }

  /** Takes the next given token. Throws `EngineError` INVALID_REQUEST if this answer could not have it there. */
  takeGiven(logprob?: TokenLogprob): AnswerStep {
    const { grammar, given } = this.#options;
    const from = this.outputTokens;
    const token = given[from];
    if (token === undefined || this.over || !grammar.take(token)) throw notOfThisAnswer();
    const step = this.take(token, logprob);
    const differs = step.tokens.some((one, at) => from + at < given.length && given[from + at] !== one);
    if (differs || (this.over && this.given !== undefined)) throw notOfThisAnswer();
    return step;
  }

  end(): readonly Event[] {
    const rest = this.#answer.push(0, this.#options.characters.flush());
    return [...rest, ...this.#answer.end(this.cut !== undefined)];
  }

  finishReason(): FinishReason {
    return this.#answer.finishReason(this.cut);
  }

  #endReasoning(): readonly Token[] {
    const { grammar, reasoningEnd } = this.#options;
    grammar.reasoningEnded();
    return reasoningEnd.slice(0, this.tokensLeft);
  }

  #push(token: Token, logprob?: TokenLogprob): readonly Event[] {
    const { generated, characters } = this.#options;
    generated.push(token);
    return this.#answer.push(1, characters.push(token), logprob && [logprob]);
  }
}
