import type { BlockWriter } from "./block-writer.ts";
import { type CodeFence, CodeFences } from "./code-fences.ts";
import type { PendingText } from "./pending-text.ts";
import { StopMatcher } from "./stop-matcher.ts";

export class VisibleText {
  readonly #writer: BlockWriter;
  readonly #pending: PendingText;
  readonly #stops: StopMatcher;
  readonly #fences = new CodeFences();
  /** The end position, in the output, of the text passed to the stop matcher, in UTF-16 units. */
  #end = 0;
  #isFresh = true;
  #matchedStop: string | undefined;

  constructor(writer: BlockWriter, pending: PendingText, stop: readonly string[]) {
    this.#writer = writer;
    this.#pending = pending;
    this.#stops = new StopMatcher(stop);
  }

  get matchedStop(): string | undefined {
    return this.#matchedStop;
  }

  /** Whether only white space has come since the start or `beginAnew`, so that a reasoning mark would count here. */
  get isFresh(): boolean {
    return this.#isFresh;
  }

  get fence(): CodeFence | undefined {
    return this.#fences.open;
  }

  /** Allows a reasoning mark again, as at the start, and closes a code fence. */
  beginAnew(): void {
    this.#isFresh = true;
    this.#fences.reset();
  }

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

  /** Releases held text: another block or the end follows, so no stop string can complete. */
  flush(): void {
    const rest = this.#stops.flush();
    this.#writer.append("text", rest, this.#end - rest.length);
  }
}
