import type { Token } from "node-llama-cpp";
import type { Event, FinishReason, TokenLogprob } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { notOfThisAnswer } from "../../request-plan/continued-answer.ts";
import type { OutputLimit } from "../../request-plan/output-limit.ts";
import type { GrammarGate } from "../grammar/grammar-gate.ts";
import type { Answer } from "./answer.ts";
import type { RepetitionEnd } from "./repetition-end.ts";

/** What the course of an answer is made of. */
export type AnswerCourseOptions = OutputLimit & {
  /** The answer, still empty. */
  readonly answer: Answer;
  /** Holds the answer to its grammar. */
  readonly gate: GrammarGate;
  /** The tokens so far, which the sampler's penalties read too. */
  readonly generated: Token[];
  /** Finds what the model writes over and over; undefined where it may. */
  readonly repetition: RepetitionEnd<Token> | undefined;
  /** The tokens that are written in the model's place when it has reasoned for long enough. */
  readonly reasoningEnd: readonly Token[];
  /** The tokens of the answer that another call has made, in order. */
  readonly given: readonly Token[];
};

/** What one more token comes to. */
export type AnswerStep = {
  /** The events that are certain now. There may be none: a token can be half a character, or half a mark. */
  readonly events: readonly Event[];
  /** The token, and what was written behind it in the model's place. */
  readonly tokens: readonly Token[];
};

const NONE: readonly Token[] = [];

/**
 * Follows the tokens of an answer from the first to the last, whether they are sampled or were given by an earlier
 * call: what an end of reasoning, a limit or a finished call makes of them is the same.
 */
export class AnswerCourse {
  /** The answer that the tokens make. */
  readonly answer: Answer;
  readonly #options: AnswerCourseOptions;
  #cut: FinishReason | undefined;

  constructor(options: AnswerCourseOptions) {
    this.answer = options.answer;
    this.#options = options;
  }

  /** The reason why the answer was cut; undefined while it was not. */
  get cut(): FinishReason | undefined {
    return this.#cut;
  }

  /** Whether nothing more comes, although the model might go on. */
  get over(): boolean {
    return this.#cut !== undefined || this.answer.isComplete;
  }

  /** The next of the tokens that another call has made; undefined when all of them have been taken. */
  get given(): Token | undefined {
    const { given, generated } = this.#options;
    return given[generated.length];
  }

  /** The number of tokens that may still come. */
  get room(): number {
    return Math.max(0, this.#options.maxOutputTokens - this.answer.outputTokens);
  }

  /** The tokens that come before all others at the next step; none where the model goes on by itself. */
  get preferred(): readonly Token[] {
    return this.#options.repetition?.due ?? NONE;
  }

  /** The position in the answer of the token that comes next, from 0. */
  get position(): number {
    return this.#options.generated.length;
  }

  /** Takes a token that was sampled here. */
  take(token: Token, logprob?: TokenLogprob): AnswerStep {
    const { answer, generated, limitReason, repetition } = this.#options;
    generated.push(token);
    const events = [...answer.push(token, logprob)];
    repetition?.take(token, answer.json);
    const tokens = [token];
    if (answer.isComplete) return { events, tokens };
    if (answer.reasonedEnough) {
      const written = this.#endReasoning();
      tokens.push(...written);
      events.push(...written.flatMap((one) => answer.push(one)));
    }
    if (this.room === 0) this.#cut = limitReason;
    return { events, tokens };
  }

  /**
   * Takes the next of the tokens that another call has made. Throws `EngineError` INVALID_REQUEST where the answer to
   * this request could not have it there.
   */
  takeGiven(logprob?: TokenLogprob): AnswerStep {
    const { gate, given } = this.#options;
    const from = this.position;
    const token = given[from];
    if (token === undefined || this.over || !gate.take(token)) throw notOfThisAnswer();
    const step = this.take(token, logprob);
    const differs = step.tokens.some((one, at) => from + at < given.length && given[from + at] !== one);
    if (differs || (this.over && this.given !== undefined)) throw notOfThisAnswer();
    return step;
  }

  /** Writes the end of the reasoning in the model's place, as far as there is room. */
  #endReasoning(): readonly Token[] {
    const { gate, generated, reasoningEnd } = this.#options;
    const written = reasoningEnd.slice(0, this.room);
    generated.push(...written);
    gate.reasoningEnded();
    return written;
  }
}
