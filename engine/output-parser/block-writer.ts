import type { Event, TokenLogprob } from "../../proto/gen/svc/inference/v1/inference_service.ts";

type ProseKind = "text" | "reasoning";

type State =
  | { readonly at: "between" }
  /** At the start of a block with nothing but white space so far: the block exists once something else follows. */
  | { readonly at: "lead"; readonly kind: ProseKind; readonly text: string; readonly start: number }
  | { readonly at: "open"; readonly index: number };

type Piece = { readonly start: number; readonly end: number; readonly logprobs: readonly TokenLogprob[] };

/** The most white space that is held at the start of a block, in UTF-16 units. */
const MAX_LEAD = 4096;

const isBlank = (text: string) => text.trim() === "";

/** Builds block events: dense indexes, one open block at a time, no empty delta, no empty text or reasoning block. */
export class BlockWriter {
  #events: Event[] = [];
  #state: State = { at: "between" };
  #nextIndex = 0;
  #delta: { text: string; logprobs: TokenLogprob[] } = { text: "", logprobs: [] };
  #pieces: Piece[] = [];

  /**
   * Announces the log probabilities of the source text `[start, end)`; they go out with the first delta that has of it.
   */
  logprobs(piece: Piece): void {
    this.#pieces.push(piece);
  }

  /**
   * Adds to the open text or reasoning block; opens it at its first character that is not white space. `start` is where
   * the text begins in the source.
   */
  append(kind: ProseKind, text: string, start: number): void {
    if (text === "") return;
    if (this.#state.at === "open") {
      this.#add(text, start);
      return;
    }
    const lead = this.#state.at === "lead" ? this.#state : { kind, text: "", start };
    const whole = lead.text + text;
    if (isBlank(whole) && whole.length < MAX_LEAD) {
      this.#state = { at: "lead", kind, text: whole, start: lead.start };
      return;
    }
    this.#open(kind === "text" ? { $case: "text", value: {} } : { $case: "reasoning", value: {} });
    this.#add(whole, lead.start);
  }

  /** Begins the block of a tool call. */
  startCall(callId: string, name: string): void {
    this.#open({ $case: "toolCall", value: { callId, name } });
  }

  /** Adds JSON text to the arguments of the open call. */
  appendArguments(text: string): void {
    this.#delta.text += text;
  }

  /**
   * Ends the open block, if there is one. A block of nothing but white space is dropped, unless it is all there is in
   * an output that ends here (`outputEnds`).
   */
  end(complete: boolean, outputEnds = false): void {
    const state = this.#state;
    if (state.at === "lead" && state.kind === "text" && outputEnds && this.#nextIndex === 0) {
      this.#open({ $case: "text", value: {} });
      this.#add(state.text, state.start);
    }
    if (this.#state.at === "open") {
      const { index } = this.#state;
      this.#flushDelta(index);
      this.#events.push({ kind: { $case: "blockEnded", value: { index, complete } } });
    }
    this.#state = { at: "between" };
  }

  /** Returns the events since the last call. */
  take(): readonly Event[] {
    if (this.#state.at === "open") this.#flushDelta(this.#state.index);
    const events = this.#events;
    this.#events = [];
    return events;
  }

  #open(block: NonNullable<Extract<Event["kind"], { $case: "blockStarted" }>["value"]["block"]>): void {
    const index = this.#nextIndex;
    this.#nextIndex += 1;
    this.#state = { at: "open", index };
    this.#events.push({ kind: { $case: "blockStarted", value: { index, block } } });
  }

  #add(text: string, start: number): void {
    const end = start + text.length;
    this.#delta.text += text;
    // Tokens that ended before this text were markup: their probabilities belong to no block.
    this.#pieces = this.#pieces.filter((piece) => piece.end > start);
    const count = this.#pieces.findIndex((piece) => piece.start >= end);
    const taken = this.#pieces.splice(0, count < 0 ? this.#pieces.length : count);
    for (const piece of taken) this.#delta.logprobs.push(...piece.logprobs);
  }

  #flushDelta(index: number): void {
    const { text, logprobs } = this.#delta;
    if (text === "") return;
    this.#delta = { text: "", logprobs: [] };
    this.#events.push({ kind: { $case: "blockDelta", value: { index, text, logprobs } } });
  }
}
