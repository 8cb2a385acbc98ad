import type { Event, TokenLogprob } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { BlockWriter } from "../../../output-parser/block-writer.ts";
import type { OutputMarkers, ReasoningMarkers } from "../../../output-parser/markers.ts";
import { OutputParser } from "../../../output-parser/output-parser.ts";
import type { MarkMending, SpelledMarks } from "../marks/spelled-marks.ts";
import { ReasoningEdges } from "./reasoning-edges.ts";

export type AnswerBlocksOptions = {
  /** The model's reasoning markers, for reasoning that the engine left in the text; undefined for a model without. */
  readonly reasoning: ReasoningMarkers | undefined;
  /** The spellings of special tokens, which were broken in the request and which the model may repeat. */
  readonly marks: SpelledMarks;
  readonly hideReasoning: boolean;
  readonly stops: readonly string[];
  /** Receives faults of this program in parsing the text. Default: ignored. */
  readonly onFault?: (thrown: unknown) => void;
};

/**
 * Builds the blocks of an answer from pieces of mixed kinds: dense indexes, one open block at a time, and reasoning
 * separated from text with reasoning markers. Engines that separate reasoning leave the white space that the template
 * writes beside its markers: it is removed, so that the turn rendered again has the same tokens.
 */
export class AnswerBlocks {
  readonly #options: AnswerBlocksOptions;
  readonly #writer = new BlockWriter();
  #open: "none" | "text" | "reasoning" | "call" = "none";
  /** The parser of the current run of text; undefined between two runs. */
  #parser: OutputParser | undefined;
  /** Whether the engine separates reasoning, so that a marker in the text is text. */
  #engineSeparates = false;
  /** Trims the reasoning that the engine is currently sending; undefined elsewhere. */
  #edges: ReasoningEdges | undefined;
  #sawReasoning = false;
  #matchedStop: string | undefined;
  #written = 0;
  readonly #mending: MarkMending;
  #logprobs: TokenLogprob[] = [];

  constructor(options: AnswerBlocksOptions) {
    this.#options = options;
    this.#mending = options.marks.mending();
  }

  get matchedStop(): string | undefined {
    return this.#matchedStop;
  }

  /** Whether the newest piece was reasoning, dropped or not. */
  get inReasoning(): boolean {
    return this.#open === "reasoning";
  }

  /** Whether any piece was reasoning, dropped or not. */
  get sawReasoning(): boolean {
    return this.#sawReasoning;
  }

  reasoning(text: string): void {
    this.#engineSeparates = true;
    this.#endStretch();
    this.#edges ??= new ReasoningEdges(this.#options.reasoning);
    this.#append("reasoning", this.#edges.push(text), []);
  }

  /** Adds a piece of visible text, with the log probabilities of its tokens. */
  text(text: string, logprobs: readonly TokenLogprob[]): void {
    if (this.#matchedStop !== undefined) return;
    if (this.#open === "call") this.#close(true);
    this.#parser ??= this.#newParser(this.#edges ? this.#options.reasoning?.afterClose : undefined);
    this.#edges = undefined;
    this.#replay(this.#parser.push(text, logprobs), false);
    this.#matchedStop = this.#parser.matchedStop;
  }

  startCall(callId: string, name: string): void {
    this.#endStretch();
    this.#edges = undefined;
    this.#close(true);
    this.#writer.startCall(callId, name);
    this.#open = "call";
  }

  appendArguments(text: string): void {
    this.#writer.appendArguments(this.#mending.push(text));
  }

  endCall(complete: boolean): void {
    this.#close(complete);
  }

  /** Ends the answer: complete (`stop`), or truncated (`cut`). */
  end(reason: "stop" | "cut"): void {
    if (this.#parser) this.#replay(this.#parser.end(reason), true);
    this.#parser = undefined;
    if (this.#edges && reason === "cut") this.#append("reasoning", this.#edges.rest(), []);
    this.#close(reason === "stop", true);
  }

  take(): readonly Event[] {
    return this.#writer.take();
  }

  #newParser(lead = ""): OutputParser {
    const { reasoning, stops, onFault } = this.#options;
    const markers: OutputMarkers = reasoning && !this.#engineSeparates ? { reasoning } : {};
    // Without tool names the parser finds no call, and needs no id.
    return new OutputParser({
      markers,
      startsInReasoning: false,
      lead,
      toolNames: [],
      stop: stops,
      newCallId: () => "",
      ...(onFault && { onFault }),
    });
  }

  /** Ends a run of text before output of another kind: held text cannot become a marker any more. */
  #endStretch(): void {
    if (!this.#parser) return;
    this.#replay(this.#parser.end("stop"), false);
    this.#parser = undefined;
  }

  #replay(events: readonly Event[], outputEnds: boolean): void {
    let kind: "text" | "reasoning" = this.#open === "reasoning" ? "reasoning" : "text";
    for (const { kind: event } of events) {
      if (event?.$case === "blockStarted") kind = event.value.block?.$case === "reasoning" ? "reasoning" : "text";
      else if (event?.$case === "blockDelta") this.#append(kind, event.value.text, event.value.logprobs);
      else if (event?.$case === "blockEnded") this.#close(event.value.complete, outputEnds);
    }
  }

  #append(kind: "text" | "reasoning", text: string, logprobs: readonly TokenLogprob[]): void {
    if (text === "") return;
    if (this.#open !== kind) this.#close(true);
    this.#open = kind;
    if (kind === "reasoning") {
      this.#sawReasoning = true;
      if (this.#options.hideReasoning) return;
    }
    this.#logprobs.push(...logprobs);
    this.#write(kind, this.#mending.push(text));
  }

  #write(kind: "text" | "reasoning", text: string): void {
    if (text === "") return;
    const start = this.#written;
    this.#written += text.length;
    if (this.#logprobs.length > 0) {
      this.#writer.logprobs({ start, end: this.#written, logprobs: this.#logprobs });
      this.#logprobs = [];
    }
    this.#writer.append(kind, text, start);
  }

  #close(complete: boolean, outputEnds = false): void {
    const rest = this.#mending.end();
    if (this.#open === "call") this.#writer.appendArguments(rest);
    else if (this.#open !== "none") this.#write(this.#open, rest);
    this.#writer.end(complete, outputEnds);
    this.#open = "none";
  }
}
