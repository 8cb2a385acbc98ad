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

type AnswerOptions = {
  readonly parser: OutputParser;
  readonly characters: Utf8Holder<Token>;
  /** The JSON root that the visible text must have; undefined for free text. The answer ends behind it. */
  readonly json: "any" | "object" | undefined;
  readonly reasoningBudget: number;
};

export class Answer {
  readonly #parser: OutputParser;
  readonly #characters: Utf8Holder<Token>;
  readonly #text: JsonScanner | undefined;
  readonly #reasoningBudget: number;
  #logprobs: TokenLogprob[] = [];
  #outputTokens = 0;
  #reasoningTokens = 0;
  #jsonIsWhole = false;
  #isInText = false;

  constructor(options: AnswerOptions) {
    this.#parser = options.parser;
    this.#characters = options.characters;
    this.#text = options.json && new JsonScanner({ root: options.json });
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

type AnswerCourseOptions = OutputLimit & {
  readonly answer: Answer;
  readonly gate: GrammarGate;
  readonly generated: Token[];
  readonly reasoningEnd: readonly Token[];
  readonly given: readonly Token[];
};

export type AnswerStep = {
  /** The events that are certain now. May be empty: a token can be a part of a character or of a marker. */
  readonly events: readonly Event[];
  readonly tokens: readonly Token[];
};

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

  get position(): number {
    return this.#options.generated.length;
  }

  take(token: Token, logprob?: TokenLogprob): AnswerStep {
    const { answer, generated, limitReason } = this.#options;
    generated.push(token);
    const events = [...answer.push(token, logprob)];
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
