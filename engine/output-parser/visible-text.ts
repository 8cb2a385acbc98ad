import type { BlockWriter } from "./block-writer.ts";
import { type CodeFence, CodeFences } from "./code-fences.ts";
import type { PendingText } from "./pending-text.ts";
import { StopMatcher } from "./stop-matcher.ts";

/** Takes the visible text of an output to its blocks, up to the first of the caller's stop strings. */
export class VisibleText {
  readonly #writer: BlockWriter;
  readonly #pending: PendingText;
  readonly #stops: StopMatcher;
  readonly #fences = new CodeFences();
  /** The place in the output where the text given to the stop strings ends, in UTF-16 units. */
  #end = 0;
  #isFresh = true;
  #matchedStop: string | undefined;

  constructor(writer: BlockWriter, pending: PendingText, stop: readonly string[]) {
    this.#writer = writer;
    this.#pending = pending;
    this.#stops = new StopMatcher(stop);
  }

  /** The stop string that ended the text, after which nothing is to be added; undefined where none did. */
  get matchedStop(): string | undefined {
    return this.#matchedStop;
  }

  /**
   * Whether there was nothing but white space since the start, or since `beginAnew`, so that a reasoning mark would
   * count here.
   */
  get isFresh(): boolean {
    return this.#isFresh;
  }

  /** The fence of code that is open at the end of the text since the start, or since `beginAnew`. */
  get fence(): CodeFence | undefined {
    return this.#fences.open;
  }

  /** Lets a reasoning mark count again, as at the start, and closes a fence of code. */
  beginAnew(): void {
    this.#isFresh = true;
    this.#fences.reset();
  }

  /** Adds what was just taken from the pending text. */
  add(text: string): void {
    if (text.trim() !== "") this.#isFresh = false;
    this.#fences.push(text);
    this.#end = this.#pending.offset;
    const start = this.#end - text.length - this.#stops.heldLength;
    const { text: certain, matched } = this.#stops.push(text);
    this.#writer.append("text", certain, start);
    if (matched === undefined) return;
    this.#matchedStop = matched;
    this.#writer.end(true, true);
  }

  /** Lets out what is held, as a block of another kind follows, or nothing: no stop string can come of it. */
  flush(): void {
    const rest = this.#stops.flush();
    this.#writer.append("text", rest, this.#end - rest.length);
  }
}
