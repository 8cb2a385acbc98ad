import type { Token } from "node-llama-cpp";
import type { Event, FinishReason, TokenLogprob } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { notOfThisAnswer } from "../../../errors.ts";
import type { OutputLimit } from "../../request-plan.ts";
import type { GrammarGate } from "../grammar/grammar-gate.ts";
import type { Answer } from "./answer.ts";
import type { RepetitionEnd } from "./repetition-end.ts";

export type AnswerCourseOptions = OutputLimit & {
  readonly answer: Answer;
  readonly gate: GrammarGate;
  readonly generated: Token[];
  readonly repetition: RepetitionEnd<Token> | undefined;
  readonly reasoningEnd: readonly Token[];
  readonly given: readonly Token[];
};

export type AnswerStep = {
  /** The events that are certain now. May be empty: a token can be a part of a character or of a marker. */
  readonly events: readonly Event[];
  readonly tokens: readonly Token[];
};

const NONE: readonly Token[] = [];

/** The state of an answer over its tokens, sampled or given by an earlier call. */
export class AnswerCourse {
  readonly answer: Answer;
  readonly #options: AnswerCourseOptions;
  #cut: FinishReason | undefined;

  constructor(options: AnswerCourseOptions) {
    this.answer = options.answer;
    this.#options = options;
  }

  get cut(): FinishReason | undefined {
    return this.#cut;
  }

  /** Whether the answer ends here, although the model might continue. */
  get over(): boolean {
    return this.#cut !== undefined || this.answer.isComplete;
  }

  /** The next token that an earlier call made; undefined once all were taken. */
  get given(): Token | undefined {
    const { given, generated } = this.#options;
    return given[generated.length];
  }

  get room(): number {
    return Math.max(0, this.#options.maxOutputTokens - this.answer.outputTokens);
  }

  /** The tokens of which one must come next; empty if the model is free. */
  get preferred(): readonly Token[] {
    return this.#options.repetition?.due ?? NONE;
  }

  get position(): number {
    return this.#options.generated.length;
  }

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

  /** Takes the next given token. Throws `EngineError` INVALID_REQUEST if this answer could not have it there. */
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

  #endReasoning(): readonly Token[] {
    const { gate, generated, reasoningEnd } = this.#options;
    const written = reasoningEnd.slice(0, this.room);
    generated.push(...written);
    gate.reasoningEnded();
    return written;
  }
}
