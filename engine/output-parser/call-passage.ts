import { BREAK } from "../../deploy/runtime/contract/broken-arguments.ts";
import { type CallProgress, type CallReader, heldSuffixLength, skipSpace } from "../tool-calls/call-reader.ts";
import { markAt } from "../tool-calls/mark-set.ts";
import type { CallReading } from "../tool-calls/tool-call-form.ts";
import type { BlockWriter, VisibleText } from "./block-writer.ts";
import { earliest, type PendingText } from "./next-mark.ts";

export class CallIds {
  readonly #newCallId: (toolName: string) => string;
  readonly #given: readonly string[];
  readonly #used = new Set<string>();
  #calls = 0;

  /** `given` are the ids already sent for the first calls, in order. */
  constructor(newCallId: (toolName: string) => string, given: readonly string[]) {
    this.#newCallId = newCallId;
    this.#given = given;
  }

  /** `written`, the model's id, is used if it is valid in every API format and unique in the answer. */
  next(toolName: string, written: string | undefined): string {
    const isUsable = written !== undefined && /^[\w.:-]{1,128}$/.test(written) && !this.#used.has(written);
    const made = isUsable ? written : this.#newCallId(toolName);
    const id = this.#given[this.#calls++] || made;
    this.#used.add(id);
    return id;
  }
}

type CallPassageOptions = {
  readonly reading: CallReading;
  /** The number of ended calls after which output is ignored; Infinity for no limit. */
  readonly maxToolCalls: number;
  readonly callIds: CallIds;
  readonly pending: PendingText;
  readonly visible: VisibleText;
  readonly writer: BlockWriter;
};

type Position =
  /** A call that is still held back; `raw` is its whole text, with the separator. */
  | { readonly at: "held"; readonly reader: CallReader; readonly raw: string }
  /** Behind the end of a held call, where the text decides whether a call was made or mentioned. */
  | { readonly at: "mention"; readonly reader: CallReader; readonly raw: string }
  | { readonly at: "call"; readonly reader: CallReader }
  /** Behind the point at which the model broke a begun call: the rest, up to a mark, goes into its arguments. */
  | { readonly at: "broken" }
  /** After complete arguments, whose block has ended; the rest of the markup is skipped. */
  | { readonly at: "tail"; readonly reader: CallReader }
  /** In the call of an unknown tool, which is text; `read`: the pending UTF-16 units that the reader has seen. */
  | { readonly at: "as-text"; readonly reader: CallReader; readonly read: number }
  /** Between two calls, or behind the last one, where models repeat closing marks; `isLast`: its group is closed. */
  | { readonly at: "between"; readonly isLast: boolean }
  | { readonly at: "outside" };

/** Needs more text, takes another step, or continues as text, after the template's white space, or not at all. */
export type PassageStep = "needs-more" | "again" | "text" | "separator" | "done";

const MAX_HELD_CALL = 64 * 1024;

const MAX_SPACE_BETWEEN = 1024;

/** UTF-16 units of a call that may be a mention; a longer one is a call. */
const MAX_MENTION = 4096;

export class CallPassage {
  readonly #options: CallPassageOptions;
  readonly #endsOfBroken: readonly string[];
  #position: Position = { at: "outside" };
  /** The number of calls whose blocks have ended, whole or not. */
  endedCalls = 0;
  #groupIsShown = false;
  /** Whether the last call is text. */
  #isShown = false;
  /** Whether the call that is held may be a mention of one; its arguments so far. */
  #isDoubtful = false;
  #arguments = "";

  constructor(options: CallPassageOptions) {
    const { openers, next, close, callClose } = options.reading;
    this.#options = options;
    // A comma or a bracket alone is no mark in text that may be anything.
    this.#endsOfBroken = [callClose, close, next, ...openers].filter((mark) => mark.length > 1);
  }

  get wantsNoMore(): boolean {
    return this.endedCalls >= this.#options.maxToolCalls;
  }

  /** Whether a mark in visible text belongs to it: as a quotation, or as that of a call that is text. */
  isText(mark: string): boolean {
    const { reading, visible } = this.#options;
    return (visible.isQuoted || this.#isShown) && (reading.looseClosers?.includes(mark) ?? false);
  }

  /** `mark` is one of the openers or "" for a brace; `raw` has the white space before it. */
  begin(mark: string, raw: string): void {
    const { inLine, anywhere } = this.#options.reading.doubtful;
    const isInLine = this.#options.visible.isInLine && !raw.includes("\n");
    this.#groupIsShown = false;
    this.#hold(mark, raw, anywhere.includes(mark) || (isInLine && inLine.includes(mark)));
  }

  #hold(mark: string, raw: string, isDoubtful: boolean): void {
    this.#isDoubtful = isDoubtful;
    this.#isShown = false;
    this.#arguments = "";
    this.#position = { at: "held", reader: this.#options.reading.newReader(mark), raw };
  }

  step(): PassageStep {
    const position = this.#position;
    switch (position.at) {
      case "held":
        return this.#inHeld(position.reader, position.raw);
      case "mention":
        return this.#behindMention(position.reader, position.raw);
      case "call":
      case "tail":
        return this.#inCall(position.reader);
      case "broken":
        return this.#inBroken();
      case "as-text":
        return this.#inCallAsText(position.reader, position.read);
      case "between":
        return this.#between(position.isLast);
      case "outside":
        return "text";
    }
  }

  end(reason: "stop" | "cut"): void {
    const { pending, visible, writer } = this.#options;
    const position = this.#position;
    switch (position.at) {
      case "call": {
        writer.appendArguments(position.reader.flush(reason === "stop" ? pending.text : ""));
        const isWhole = position.reader.argumentsAreWhole;
        if (!isWhole && reason === "stop") writer.appendArguments(BREAK);
        this.#endCall(isWhole);
        break;
      }
      case "broken":
        writer.appendArguments(pending.takeAll());
        this.#endCall(false);
        break;
      case "between":
        // A truncated part of a mark is not text; the model's own end makes it text.
        if (this.#groupIsShown || reason === "stop") visible.add(pending.takeAll());
        visible.flush();
        writer.end(true);
        break;
      case "mention":
        this.#start(position.reader);
        this.end(reason);
        break;
      case "held":
        if (reason === "stop" && position.reader.startedName !== undefined) {
          this.#arguments += position.reader.flush(pending.text);
          if (position.reader.argumentsAreWhole) {
            this.#start(position.reader);
            this.#endCall(true);
            break;
          }
        }
        visible.add(this.#withoutStray(position) + pending.takeAll());
        visible.flush();
        writer.end(reason === "stop", true);
        break;
      case "as-text":
        visible.add(pending.takeAll());
        visible.flush();
        writer.end(reason === "stop", true);
        break;
      default:
    }
  }

  giveUp(): void {
    const position = this.#position;
    this.#position = { at: "outside" };
    if (position.at === "held" || position.at === "mention") this.#options.visible.add(position.raw);
    if (position.at === "call") this.#options.writer.appendArguments(BREAK);
    if (position.at === "call" || position.at === "broken") this.#endCall(false);
  }

  #inHeld(reader: CallReader, raw: string): PassageStep {
    const { pending, visible } = this.#options;
    const progress = reader.push(pending.text.slice(0, MAX_HELD_CALL - raw.length));
    const all = raw + pending.take(progress.consumed);
    this.#position = { at: "held", reader, raw: all };
    if (reader.startedName !== undefined) {
      this.#arguments += progress.arguments;
      if (this.#isDoubtful && progress.state === "closed") {
        this.#position = { at: "mention", reader, raw: all };
        return "again";
      }
      const isMention = this.#isDoubtful && (progress.state === "malformed" || all.length < MAX_MENTION);
      if (!isMention) return this.#begun(reader, progress.state);
    }
    if (progress.state === "closed" && !reader.isPastLead) {
      // A group without a call. The template's white space before it goes on being text.
      visible.add(all.slice(0, all.length - all.trimStart().length));
      return this.#behindCall(true);
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
    this.#isShown = true;
    const kept = this.#separatorAt(all, isOver);
    pending.putBack(all.slice(all.length - kept));
    visible.add(all.slice(0, all.length - kept));
    if (isOver) return this.#behindCall(progress.state === "closed");
    this.#position = { at: "as-text", reader, read: kept };
    return "again";
  }

  #begun(reader: CallReader, state: CallProgress["state"]): PassageStep {
    this.#start(reader);
    const step = this.#follow(reader, { consumed: 0, arguments: "", state });
    return step === "needs-more" ? "again" : step;
  }

  #start(reader: CallReader): void {
    const { callIds, visible, writer } = this.#options;
    const name = reader.startedName ?? "";
    visible.flush();
    writer.end(true);
    writer.startCall(callIds.next(name, reader.callId), name);
    writer.appendArguments(this.#arguments);
    this.#position = { at: "call", reader };
  }

  /** A call that words of its line follow is mentioned, and text. */
  #behindMention(reader: CallReader, raw: string): PassageStep {
    const { reading, pending, visible } = this.#options;
    const at = pending.text.search(/[^ \t]/);
    if (at < 0) return "needs-more";
    const found = markAt(pending.text, at, ["\n", "\r", reading.next, ...reading.closers, ...reading.openers]);
    if (found === "partly") return "needs-more";
    if (found !== undefined) return this.#begun(reader, "closed");
    this.#position = { at: "outside" };
    this.#isShown = true;
    visible.add(raw);
    return "text";
  }

  #withoutStray({ reader, raw }: { readonly reader: CallReader; readonly raw: string }): string {
    const stray = !reader.isPastLead && this.#options.reading.strays?.find((mark) => raw.startsWith(mark));
    return stray ? raw.slice(stray.length) : raw;
  }

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

  #follow(reader: CallReader, progress: CallProgress): PassageStep {
    const { visible, writer } = this.#options;
    writer.appendArguments(progress.arguments);
    if (this.#position.at === "call" && reader.argumentsAreWhole) {
      this.#endCall(true);
      this.#position = { at: "tail", reader };
      if (this.wantsNoMore) return "done";
    }
    if (progress.state === "open") return "needs-more";
    if (this.#position.at === "call") {
      writer.appendArguments(BREAK);
      this.#position = { at: "broken" };
      return "again";
    }
    visible.beginAnew();
    return this.#behindCall(progress.state === "closed" || reader.argumentsAreWhole);
  }

  #inBroken(): PassageStep {
    const { reading, pending, visible, writer } = this.#options;
    const found = earliest(pending.text, this.#endsOfBroken);
    const held = found === undefined ? heldSuffixLength(pending.text, this.#endsOfBroken) : 0;
    writer.appendArguments(pending.take(found?.at ?? pending.text.length - held));
    const mark = found && markAt(pending.text, 0, this.#endsOfBroken);
    if (mark === undefined || mark === "partly") return "needs-more";
    if (mark.mark === reading.callClose) pending.take(mark.mark.length);
    this.#endCall(false);
    if (this.wantsNoMore) return "done";
    visible.beginAnew();
    return this.#behindCall(true);
  }

  #endCall(isWhole: boolean): void {
    this.endedCalls += 1;
    this.#options.writer.end(isWhole);
  }

  #behindCall(isClosed: boolean): PassageStep {
    const { next, close, closers } = this.#options.reading;
    const isGrouped = next !== "" || close !== "";
    const mayContinue = isGrouped || (closers.length > 0 && !this.#groupIsShown);
    this.#position = isClosed && mayContinue ? { at: "between", isLast: !isGrouped } : { at: "outside" };
    if (isClosed && mayContinue) return "again";
    return isClosed ? this.#outside() : "text";
  }

  #outside(): PassageStep {
    this.#position = { at: "outside" };
    return this.#groupIsShown ? "text" : "separator";
  }

  #between(isLast: boolean): PassageStep {
    const { reading, pending, visible } = this.#options;
    const { next, close, closers } = reading;
    const lead = skipSpace(pending.text, 0);
    const marks = [close, isLast ? "" : next, ...(this.#groupIsShown ? [] : closers)];
    const found = lead > MAX_SPACE_BETWEEN ? undefined : markAt(pending.text, lead, marks);
    if (found === "partly") return "needs-more";
    if (found === undefined) return this.#outside();
    const markup = pending.take(lead + found.mark.length);
    if (found.mark === next) {
      this.#hold(next, markup, false);
      return "again";
    }
    if (this.#groupIsShown) {
      visible.add(markup);
      return this.#outside();
    }
    this.#position = { at: "between", isLast: isLast || found.mark === close };
    return "again";
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
