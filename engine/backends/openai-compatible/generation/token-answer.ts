import {
  type Event,
  FinishReason,
  type TokenLogprob,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { OutputParser, type OutputParserOptions } from "../../../output-parser/output-parser.ts";
import { JsonScanner } from "../../../tool-calls/json-scanner.ts";
import type { SpelledMarks } from "../marks/spelled-marks.ts";

export type TokenAnswerOptions = OutputParserOptions & {
  /** The spellings of special tokens that were broken in the prompt, and that the model may repeat. */
  readonly spelled: SpelledMarks;
  /** The JSON root that the visible text must have; undefined for free text. The answer ends behind it. */
  readonly json: "any" | "object" | undefined;
  /** The most reasoning tokens; Infinity without a bound. */
  readonly reasoningBudget: number;
  /** Whether reasoning is dropped, for a model that reasons although the caller disabled it. */
  readonly hideReasoning: boolean;
};

/** Builds one answer from an engine's tokens and their text: chunks in, canonical events out. */
export class TokenAnswer {
  readonly #options: TokenAnswerOptions;
  readonly #parser: OutputParser;
  readonly #mending: ReturnType<SpelledMarks["mending"]>;
  readonly #json: JsonScanner | undefined;
  #jsonIsWhole = false;
  #inText = false;
  #outputTokens = 0;
  #reasoningTokens = 0;
  /** The number of dropped blocks of reasoning, and whether the open block is one. */
  #hidden = 0;
  #inHidden = false;
  /** The log probabilities of tokens whose text the engine still holds back. */
  #logprobs: TokenLogprob[] = [];

  constructor(options: TokenAnswerOptions) {
    this.#options = options;
    this.#parser = new OutputParser(options);
    this.#mending = options.spelled.mending();
    this.#json = options.json && new JsonScanner({ root: options.json });
  }

  /** The number of tokens so far, without the model's end token. */
  get outputTokens(): number {
    return this.#outputTokens;
  }

  /** The number of tokens at whose end or beginning the answer was in its reasoning. */
  get reasoningTokens(): number {
    return this.#reasoningTokens;
  }

  get inReasoning(): boolean {
    return this.#parser.inReasoning;
  }

  get matchedStop(): string | undefined {
    return this.#parser.matchedStop;
  }

  /** The number of tokens that the reasoning may still have; Infinity outside it, and without a budget. */
  get reasoningRoom(): number {
    return this.#parser.inReasoning ? this.#options.reasoningBudget - this.#reasoningTokens : Number.POSITIVE_INFINITY;
  }

  /** Whether the model is still reasoning and its reasoning budget is spent. */
  get reasonedEnough(): boolean {
    return this.reasoningRoom <= 0;
  }

  /** Whether the answer is complete, although the model might continue. */
  get isComplete(): boolean {
    return this.#parser.matchedStop !== undefined || this.#parser.wantsNoMore || this.#jsonIsWhole;
  }

  /** Takes `tokens` tokens with their text, of which some may be held back by the engine. */
  push(tokens: number, text: string, logprobs: readonly TokenLogprob[] = []): readonly Event[] {
    this.#outputTokens += tokens;
    const wasReasoning = this.#parser.inReasoning;
    if (logprobs.length > 0) this.#logprobs.push(...logprobs);
    const events = text === "" ? [] : this.#parser.push(text, this.#logprobs);
    if (text !== "" && this.#logprobs.length > 0) this.#logprobs = [];
    if (wasReasoning || this.#parser.inReasoning) this.#reasoningTokens += tokens;
    return this.#said(events);
  }

  /** Returns the last events. `cut` means that the answer was truncated by a token limit. */
  end(cut: boolean): readonly Event[] {
    return this.#said(this.#parser.end(cut ? "cut" : "stop"));
  }

  /** Returns the finish reason. `limit` is the reason of a truncated answer. */
  finishReason(limit: FinishReason | undefined): FinishReason {
    if (this.#parser.matchedStop !== undefined) return FinishReason.STOP_SEQUENCE;
    if (limit !== undefined) return limit;
    return this.#parser.finishedToolCalls > 0 ? FinishReason.TOOL_CALLS : FinishReason.STOP;
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
      this.#inHidden = this.#options.hideReasoning && block === "reasoning";
      if (this.#inHidden) this.#hidden += 1;
    }
    if (this.#inHidden) return;
    if (kind?.$case === "blockDelta") {
      if (this.#inText && this.#json?.push(kind.value.text).state === "complete") this.#jsonIsWhole = true;
      const text = this.#mending.push(kind.value.text);
      if (text !== "" || kind.value.logprobs.length > 0) said.push(this.#moved(withText(event, text)));
      return;
    }
    const rest = kind?.$case === "blockEnded" ? this.#mending.end() : "";
    if (kind?.$case === "blockEnded" && rest !== "") {
      const value = { index: kind.value.index, text: rest, logprobs: [] };
      said.push(this.#moved({ kind: { $case: "blockDelta", value } }));
    }
    said.push(this.#moved(event));
  }

  /** Returns an event with the index that its block has without the dropped ones. */
  #moved(event: Event): Event {
    const { kind } = event;
    if (this.#hidden === 0) return event;
    switch (kind?.$case) {
      case "blockStarted":
        return { kind: { $case: "blockStarted", value: { ...kind.value, index: kind.value.index - this.#hidden } } };
      case "blockDelta":
        return { kind: { $case: "blockDelta", value: { ...kind.value, index: kind.value.index - this.#hidden } } };
      case "blockEnded":
        return { kind: { $case: "blockEnded", value: { ...kind.value, index: kind.value.index - this.#hidden } } };
      default:
        return event;
    }
  }
}

function withText(event: Event, text: string): Event {
  if (event.kind?.$case !== "blockDelta" || event.kind.value.text === text) return event;
  return { kind: { $case: "blockDelta", value: { ...event.kind.value, text } } };
}
