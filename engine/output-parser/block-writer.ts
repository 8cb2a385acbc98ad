import type { Event, TokenLogprob } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { heldSuffixLength } from "../tool-calls/call-reader.ts";
import { type CodeFence, CodeFences } from "./fenced-calls.ts";
import type { PendingText } from "./next-mark.ts";

type ProseKind = "text" | "reasoning";

type State =
  | { readonly at: "between" }
  /** At the start of a block with white space only: the block is created when other text follows. */
  | { readonly at: "lead"; readonly kind: ProseKind; readonly text: string; readonly start: number }
  | { readonly at: "open"; readonly index: number };

type Piece = { readonly start: number; readonly end: number; readonly logprobs: readonly TokenLogprob[] };

const MAX_LEAD = 4096;

const isBlank = (text: string) => text.trim() === "";

/** Consecutive indexes, one open block at a time, no empty deltas, no empty text or reasoning blocks. */
export class BlockWriter {
  #events: Event[] = [];
  #state: State = { at: "between" };
  #nextIndex = 0;
  #delta: { text: string; logprobs: TokenLogprob[] } = { text: "", logprobs: [] };
  #pieces: Piece[] = [];

  /** Log probabilities of the source range `[start, end)` are sent with its first delta. */
  logprobs(piece: Piece): void {
    this.#pieces.push(piece);
  }

  /** A block opens at its first character other than white space; `start` is the text's position in the source. */
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

  startCall(callId: string, name: string): void {
    this.#open({ $case: "toolCall", value: { callId, name } });
  }

  appendArguments(text: string): void {
    this.#delta.text += text;
  }

  /** A block of white space only is dropped, unless the output ends here and has no other block. */
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

/** Finds stop strings in text that arrives in pieces, and holds back their prefixes. */
class StopMatcher {
  readonly #stops: readonly string[];
  #held = "";

  constructor(stops: readonly string[]) {
    this.#stops = stops.filter((stop) => stop !== "");
  }

  get heldLength(): number {
    return this.#held.length;
  }

  /** The stop string that completes first wins, and the longer of two that end together, however the text is split. */
  push(text: string): { readonly text: string; readonly matched?: string } {
    const all = this.#held + text;
    let best: { readonly start: number; readonly end: number; readonly stop: string } | undefined;
    for (const stop of this.#stops) {
      const start = all.indexOf(stop);
      if (start < 0) continue;
      const end = start + stop.length;
      if (best === undefined || end < best.end || (end === best.end && start < best.start)) best = { start, end, stop };
    }
    if (best !== undefined) {
      this.#held = "";
      return { text: all.slice(0, best.start), matched: best.stop };
    }
    const keep = heldSuffixLength(all, this.#stops);
    this.#held = all.slice(all.length - keep);
    return { text: all.slice(0, all.length - keep) };
  }

  flush(): string {
    const rest = this.#held;
    this.#held = "";
    return rest;
  }
}

export class VisibleText {
  readonly #writer: BlockWriter;
  readonly #pending: PendingText;
  readonly #stops: StopMatcher;
  readonly #fences = new CodeFences();
  /** The end position, in the output, of the text passed to the stop matcher, in UTF-16 units. */
  #end = 0;
  /** Whether only white space has come since the start or `beginAnew`, so that a reasoning mark would count here. */
  isFresh = true;
  /** Whether a mark that follows stands in a line of words. */
  isInLine = false;
  #last = "";
  matchedStop: string | undefined;

  constructor(writer: BlockWriter, pending: PendingText, stop: readonly string[]) {
    this.#writer = writer;
    this.#pending = pending;
    this.#stops = new StopMatcher(stop);
  }

  get fence(): CodeFence | undefined {
    return this.#fences.open;
  }

  /** Whether a mark that follows is quoted. */
  get isQuoted(): boolean {
    return this.#last === '"' || this.#last === "'" || this.#last === "`";
  }

  /** Allows a reasoning mark again, as at the start, and closes a code fence. */
  beginAnew(): void {
    this.isFresh = true;
    this.isInLine = false;
    this.#last = "";
    this.#fences.reset();
  }

  add(text: string): void {
    if (text.trim() !== "") this.isFresh = false;
    this.#fences.push(text);
    const line = text.slice(text.lastIndexOf("\n") + 1);
    this.isInLine = line.trim() !== "" || (this.isInLine && line.length === text.length);
    this.#last = text.at(-1) ?? this.#last;
    this.#end = this.#pending.offset;
    const start = this.#end - text.length - this.#stops.heldLength;
    const { text: certain, matched } = this.#stops.push(text);
    this.#writer.append("text", certain, start);
    if (matched === undefined) return;
    this.matchedStop = matched;
    this.#writer.end(true, true);
  }

  /** Releases held text: another block or the end follows, so no stop string can complete. */
  flush(): void {
    const rest = this.#stops.flush();
    this.#writer.append("text", rest, this.#end - rest.length);
  }
}
