import { type CallProgress, type CallReader, markAt, skipSpace } from "../tool-calls/readers/call-reader.ts";
import { heldSuffixLength } from "../tool-calls/readers/held-suffix.ts";
import type { CallReading } from "../tool-calls/tool-call-form.ts";
import type { BlockWriter } from "./block-writer.ts";
import type { CallIds } from "./call-ids.ts";
import type { PendingText } from "./pending-text.ts";
import type { VisibleText } from "./visible-text.ts";

/** The parts that the calls of an output are read with. */
export type CallPassageOptions = {
  /** The rules of how calls are found and read. */
  readonly reading: CallReading;
  /** The number of finished calls after which nothing more is taken; Infinity without a bound. */
  readonly maxToolCalls: number;
  /** Gives each call its id. */
  readonly callIds: CallIds;
  /** The text that is not decided yet. */
  readonly pending: PendingText;
  /** Takes what turns out to be no call. */
  readonly visible: VisibleText;
  /** Takes the calls as blocks. */
  readonly writer: BlockWriter;
};

type Position =
  /** A call of which nothing has gone out yet; `raw` is its whole text, from the separator on. */
  | { readonly at: "held"; readonly reader: CallReader; readonly raw: string }
  | { readonly at: "call"; readonly reader: CallReader }
  /** Behind the arguments, which are whole and whose block has ended; the rest of the markup is passed over. */
  | { readonly at: "tail"; readonly reader: CallReader }
  /**
   * In the call of an unknown tool, which is text up to its closing mark. The reader has read so much of the pending
   * text.
   */
  | { readonly at: "as-text"; readonly reader: CallReader; readonly read: number }
  /** Between two calls of a group, or at its end. */
  | { readonly at: "between" }
  | { readonly at: "outside" };

/**
 * The result of a step: it needs more text, it may go on at once, or the output goes on outside: in the text, behind
 * the white space that the template writes there, or nowhere.
 */
export type PassageStep = "needs-more" | "again" | "text" | "separator" | "done";

/** The UTF-16 units after which a call of which nothing could go out becomes text. */
const MAX_HELD_CALL = 64 * 1024;

/** The most white space between two calls of a group, in UTF-16 units; behind more of it the group has ended. */
const MAX_SPACE_BETWEEN = 1024;

/** Reads the calls of an output, from an opening mark up to where other text goes on. */
export class CallPassage {
  readonly #options: CallPassageOptions;
  #position: Position = { at: "outside" };
  #finishedToolCalls = 0;
  /** Whether the opening mark of the current group of calls came out as text. */
  #groupIsShown = false;

  constructor(options: CallPassageOptions) {
    this.#options = options;
  }

  /** The number of calls whose arguments are whole. */
  get finishedToolCalls(): number {
    return this.#finishedToolCalls;
  }

  /** Whether there are as many finished calls as are wanted. */
  get wantsNoMore(): boolean {
    return this.#finishedToolCalls >= this.#options.maxToolCalls;
  }

  /**
   * Begins to read calls behind `mark`, one of the openers or "" for a brace; `raw` is it with the white space before
   * it.
   */
  begin(mark: string, raw: string): void {
    this.#groupIsShown = false;
    this.#position = { at: "held", reader: this.#options.reading.newReader(mark), raw };
  }

  /** Makes one decision about the pending text. */
  step(): PassageStep {
    const position = this.#position;
    switch (position.at) {
      case "held":
        return this.#inHeld(position.reader, position.raw);
      case "call":
      case "tail":
        return this.#inCall(position.reader);
      case "as-text":
        return this.#inCallAsText(position.reader, position.read);
      case "between":
        return this.#between();
      case "outside":
        return "text";
    }
  }

  /** Ends the output here: by itself (`stop`), or in the middle of what the model was writing (`cut`). */
  end(reason: "stop" | "cut"): void {
    const { pending, visible, writer } = this.#options;
    const position = this.#position;
    switch (position.at) {
      case "call": {
        writer.appendArguments(position.reader.flush?.(reason === "stop" ? pending.text : "") ?? "");
        const isWhole = position.reader.argumentsAreWhole;
        this.#finishedToolCalls += isWhole ? 1 : 0;
        writer.end(isWhole);
        break;
      }
      case "between":
        // Part of a mark that was cut short is not text; at an end that the model chose it is.
        if (this.#groupIsShown || reason === "stop") visible.add(pending.takeAll());
        visible.flush();
        writer.end(true);
        break;
      case "held":
      case "as-text":
        visible.add((position.at === "held" ? this.#withoutStray(position) : "") + pending.takeAll());
        visible.flush();
        writer.end(reason === "stop", true);
        break;
      default:
    }
  }

  /** Gives up reading calls: of one of which nothing has gone out its text comes out instead. */
  giveUp(): void {
    const position = this.#position;
    this.#position = { at: "outside" };
    if (position.at === "held") this.#options.visible.add(position.raw);
  }

  #inHeld(reader: CallReader, raw: string): PassageStep {
    const { callIds, pending, visible, writer } = this.#options;
    const progress = reader.push(pending.text.slice(0, MAX_HELD_CALL - raw.length));
    const all = raw + pending.take(progress.consumed);
    this.#position = { at: "held", reader, raw: all };
    if (reader.startedName !== undefined) {
      visible.flush();
      writer.end(true);
      writer.startCall(callIds.next(reader.startedName, reader.callId), reader.startedName);
      this.#position = { at: "call", reader };
      const step = this.#follow(reader, progress);
      return step === "needs-more" ? "again" : step;
    }
    const isOver = progress.state !== "open" || all.length + pending.text.length >= MAX_HELD_CALL;
    if (!isOver && !reader.nameIsUnknown) return "needs-more";
    const shown = this.#withoutStray({ reader, raw: all });
    if (shown !== all) {
      pending.putBack(shown);
      this.#position = { at: "outside" };
      return "text";
    }
    this.#groupIsShown = true;
    const kept = this.#separatorAt(all, isOver);
    pending.putBack(all.slice(all.length - kept));
    visible.add(all.slice(0, all.length - kept));
    if (isOver) return this.#behindCall(progress.state === "closed");
    this.#position = { at: "as-text", reader, read: kept };
    return "again";
  }

  /** Returns the text of a call that is none, without the mark of a group that no call follows. */
  #withoutStray({ reader, raw }: { readonly reader: CallReader; readonly raw: string }): string {
    const stray = reader.isPastLead === false && this.#options.reading.strays?.find((mark) => raw.startsWith(mark));
    return stray ? raw.slice(stray.length) : raw;
  }

  /**
   * Returns how much of the end may be the separator before a mark that follows, or, unless the text is `whole`, its
   * beginning.
   */
  #separatorAt(text: string, whole: boolean): number {
    const { separator } = this.#options.reading;
    if (text.endsWith(separator)) return separator.length;
    return whole ? 0 : heldSuffixLength(text, [separator]);
  }

  #inCall(reader: CallReader): PassageStep {
    const { pending } = this.#options;
    const progress = reader.push(pending.text);
    pending.take(progress.consumed);
    return this.#follow(reader, progress);
  }

  /** Writes the arguments of a started call and goes with it to its end. */
  #follow(reader: CallReader, progress: CallProgress): PassageStep {
    const { visible, writer } = this.#options;
    writer.appendArguments(progress.arguments);
    if (this.#position.at === "call" && reader.argumentsAreWhole) {
      this.#finishedToolCalls += 1;
      writer.end(true);
      this.#position = { at: "tail", reader };
      if (this.wantsNoMore) return "done";
    }
    if (progress.state === "open") return "needs-more";
    writer.end(false);
    visible.beginAnew();
    return this.#behindCall(progress.state === "closed");
  }

  /** Goes on behind a call that ended with its closing mark, or without it. */
  #behindCall(isClosed: boolean): PassageStep {
    const { reading } = this.#options;
    const isGrouped = reading.next !== "" || reading.close !== "";
    this.#position = isClosed && isGrouped ? { at: "between" } : { at: "outside" };
    if (isClosed && isGrouped) return "again";
    return isClosed ? this.#outside() : "text";
  }

  #outside(): PassageStep {
    this.#position = { at: "outside" };
    return this.#groupIsShown ? "text" : "separator";
  }

  #between(): PassageStep {
    const { reading, pending, visible } = this.#options;
    const lead = skipSpace(pending.text, 0);
    const marks = [reading.close, reading.next, ...(reading.otherCloses ?? [])];
    const found = lead > MAX_SPACE_BETWEEN ? undefined : markAt(pending.text, lead, marks);
    if (found === "partly") return "needs-more";
    const markup = found === undefined ? "" : pending.take(lead + found.mark.length);
    if (found !== undefined && found.mark === reading.next) {
      this.#position = { at: "held", reader: reading.newReader(reading.next), raw: markup };
      return "again";
    }
    if (this.#groupIsShown) visible.add(markup);
    return this.#outside();
  }

  #inCallAsText(reader: CallReader, read: number): PassageStep {
    const { pending, visible } = this.#options;
    const { consumed, state } = reader.push(pending.text.slice(read));
    const all = pending.text.slice(0, read + consumed);
    const kept = this.#separatorAt(all, state !== "open");
    visible.add(pending.take(all.length - kept));
    if (state !== "open") return this.#behindCall(state === "closed");
    this.#position = { at: "as-text", reader, read: kept };
    return "needs-more";
  }
}
