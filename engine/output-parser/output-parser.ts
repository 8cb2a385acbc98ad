import type { Event, TokenLogprob } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ArgumentTypes } from "../tool-calls/argument-types.ts";
import { heldSuffixLength } from "../tool-calls/call-reader.ts";
import { formOf } from "../tool-calls/forms.ts";
import { markAt } from "../tool-calls/mark-set.ts";
import type { CallReading } from "../tool-calls/tool-call-form.ts";
import { BlockWriter, VisibleText } from "./block-writer.ts";
import { CallIds, CallPassage, type PassageStep } from "./call-passage.ts";
import { type CodeFence, CodeFences, FencedCalls } from "./fenced-calls.ts";
import { hasExamples, marksOfText, type OutputMarkers, type ReasoningMarkers } from "./markers.ts";
import {
  earliest,
  nextMark,
  PendingText,
  type ReasoningEnds,
  reasoningEnds,
  type VisibleMarks,
  visibleMarks,
} from "./next-mark.ts";

export type OutputParserOptions = {
  readonly markers: OutputMarkers;
  /** Whether the prompt ended inside the reasoning, so that the output contains only its closing mark. */
  readonly startsInReasoning: boolean;
  readonly lead?: string;
  /** The names of the callable tools. Without any, markup of calls is plain text. */
  readonly toolNames: readonly string[];
  readonly argumentTypes?: ArgumentTypes;
  /** Whether calls have the node's own form instead of the model's. Default: false. */
  readonly areGeneric?: boolean;
  /** The number of ended calls after which output is ignored. Default: unlimited. */
  readonly maxToolCalls?: number;
  /** The caller's stop strings; they apply to visible text only. */
  readonly stop: readonly string[];
  readonly newCallId: (toolName: string) => string;
  /** Ids already sent for the first calls of a resumed answer, in order. Default: none. */
  readonly callIds?: readonly string[];
  readonly onFault?: (thrown: unknown) => void;
};

type State =
  | { readonly at: "text" }
  | { readonly at: "reasoning"; readonly reasoning: Reasoning }
  /** At the start of open reasoning, where models may repeat the opening mark. */
  | { readonly at: "opened"; readonly reasoning: Reasoning }
  | { readonly at: "skip"; readonly rest: string; readonly next: State }
  | { readonly at: "calls"; readonly calls: Calls }
  | { readonly at: "fenced"; readonly fenced: Fenced }
  | { readonly at: "plain" }
  | { readonly at: "done" };

type Reasoning = { readonly markers: ReasoningMarkers; readonly ends: ReasoningEnds };

type Calls = { readonly reading: CallReading; readonly passage: CallPassage };

type Fenced = {
  readonly look: FencedCalls;
  readonly calls: Calls;
  readonly mark: string;
  readonly raw: string;
  readonly reasoning: Reasoning | undefined;
};

const TEXT: State = { at: "text" };
/** The maximum white space before a repeated opening mark of reasoning, in UTF-16 units. */
const MAX_LEAD = 64;
const ANY_TYPE: ArgumentTypes = () => undefined;

/**
 * Parses a model's output into block events, independent of the split into pieces. Only text that may still become a
 * mark or a stop string is held back. White space that the template writes beside a mark is markup. A reasoning mark
 * counts at the start of a visible text only. A malformed call, or one of an unknown tool, becomes text. One whose
 * arguments were already sent is a broken call: its arguments go on with `BREAK` and the rest as written, up to the next
 * mark of calls, and its block ends incomplete. After a fault of the parser all output becomes text.
 */
export class OutputParser {
  readonly #reasoning: Reasoning | undefined;
  readonly #visibleMarks: VisibleMarks;
  readonly #calls: Calls | undefined;
  readonly #writer = new BlockWriter();
  readonly #pending = new PendingText();
  readonly #visible: VisibleText;
  readonly #fences = new CodeFences();
  readonly #hasExamples: boolean;
  readonly #onFault: (thrown: unknown) => void;
  #state: State;

  constructor(options: OutputParserOptions) {
    const { reasoning: markers, toolCall, text } = options.markers;
    this.#onFault = options.onFault ?? (() => {});
    this.#visible = new VisibleText(this.#writer, this.#pending, options.stop);
    this.#calls = this.#newCalls(options);
    this.#hasExamples = hasExamples(options.markers);
    const reading = this.#calls?.reading;
    const calls = toolCall && reading && { toolCall, reading, toolNames: options.toolNames };
    const reasoning = markers && { markers, ends: reasoningEnds(markers, calls, text?.open ?? "") };
    this.#reasoning = reasoning;
    const closers = (reading?.strays ?? []).filter((mark) => !reading?.openers.includes(mark));
    this.#visibleMarks = visibleMarks(reading, markers, [...(text ? marksOfText(text) : []), ...closers]);
    const first: State = options.startsInReasoning && reasoning ? { at: "opened", reasoning } : TEXT;
    this.#state = options.lead ? { at: "skip", rest: options.lead, next: first } : first;
  }

  get matchedStop(): string | undefined {
    return this.#visible.matchedStop;
  }

  /** The number of calls whose blocks have ended, whole or not. */
  get endedCalls(): number {
    return this.#calls?.passage.endedCalls ?? 0;
  }

  get wantsNoMore(): boolean {
    return this.#calls?.passage.wantsNoMore ?? false;
  }

  get inReasoning(): boolean {
    const state = this.#state.at === "skip" ? this.#state.next : this.#state;
    if (state.at === "fenced") return state.fenced.reasoning !== undefined;
    return state.at === "reasoning" || state.at === "opened";
  }

  /** Takes whole characters, with the log probabilities of their tokens. */
  push(text: string, logprobs: readonly TokenLogprob[] = []): readonly Event[] {
    if (this.#state.at === "done") return [];
    const start = this.#pending.received;
    this.#pending.receive(text);
    if (logprobs.length > 0) this.#writer.logprobs({ start, end: this.#pending.received, logprobs });
    this.#guarded(() => {
      while (this.#pending.text !== "" && this.#step()) {}
    });
    return this.#writer.take();
  }

  /** Ends the output: the model stopped (`stop`), or the output was truncated (`cut`). Must be called once. */
  end(reason: "stop" | "cut"): readonly Event[] {
    this.#guarded(() => this.#end(reason));
    if (this.#state.at === "plain") this.#end(reason);
    this.#state = { at: "done" };
    return this.#writer.take();
  }

  #end(reason: "stop" | "cut"): void {
    const state = this.#state;
    switch (state.at) {
      case "opened":
      case "reasoning":
        this.#think(this.#pending.text.length);
        this.#writer.end(false);
        break;
      case "calls":
        state.calls.passage.end(reason);
        break;
      case "fenced":
        this.#endFenced(state.fenced, reason);
        break;
      case "text":
      case "plain":
      case "skip":
        this.#visible.add(this.#pending.takeAll());
        this.#visible.flush();
        this.#writer.end(reason === "stop", true);
        break;
      case "done":
    }
  }

  #guarded(read: () => void): void {
    try {
      read();
    } catch (thrown) {
      const state = this.#state;
      this.#state = { at: "plain" };
      this.#onFault(thrown);
      if (state.at === "calls") state.calls.passage.giveUp();
      this.#writer.end(false);
      this.#visible.add(this.#pending.takeAll());
    }
  }

  #newCalls({
    markers,
    toolNames,
    argumentTypes = ANY_TYPE,
    areGeneric = false,
    ...options
  }: OutputParserOptions): Calls | undefined {
    const { toolCall } = markers;
    if (!toolCall || toolNames.length === 0) return undefined;
    const reading = formOf(toolCall).reading(toolCall, { names: new Set(toolNames), argumentTypes, areGeneric });
    if (reading === undefined) return undefined;
    const passage = new CallPassage({
      reading,
      maxToolCalls: options.maxToolCalls ?? Number.POSITIVE_INFINITY,
      callIds: new CallIds(options.newCallId, options.callIds ?? []),
      pending: this.#pending,
      visible: this.#visible,
      writer: this.#writer,
    });
    return { reading, passage };
  }

  #step(): boolean {
    const goesOn = this.#decide();
    if (this.#visible.matchedStop === undefined) return goesOn;
    this.#state = { at: "done" };
    return false;
  }

  #decide(): boolean {
    const state = this.#state;
    switch (state.at) {
      case "text":
        return this.#inText();
      case "reasoning":
        return this.#inReasoning(state.reasoning);
      case "opened":
        return this.#inOpened(state.reasoning);
      case "skip":
        return this.#inSkip(state.rest, state.next);
      case "calls":
        return this.#inCalls(state.calls.reading, state.calls.passage.step());
      case "fenced":
        return this.#inFenced(state.fenced);
      case "plain":
        this.#visible.add(this.#pending.takeAll());
        return false;
      case "done":
        return false;
    }
  }

  #inText(): boolean {
    const reasoning = this.#reasoning;
    const next = nextMark(this.#pending.text, this.#visibleMarks, this.#visible.isFresh);
    if (next.text > 0) {
      this.#visible.add(this.#pending.take(next.text));
      return true;
    }
    if (next.kind === "call" && this.#calls) {
      this.#beginCalls(this.#calls, next.mark, next.length, this.#visible.fence, undefined);
      return true;
    }
    const taken = this.#pending.take(next.length);
    if (next.kind === "reasoning" && reasoning) {
      this.#visible.flush();
      this.#writer.end(true);
      this.#fences.reset();
      this.#state = { at: "skip", rest: reasoning.markers.afterOpen, next: { at: "opened", reasoning } };
    } else if (next.kind === "reasoning-end" && reasoning) {
      this.#state = { at: "skip", rest: reasoning.markers.afterClose, next: TEXT };
    } else if (next.kind === "text-mark") {
      if (this.#calls?.passage.isText(next.mark)) this.#visible.add(taken);
      else this.#visible.flush();
    }
    return next.kind !== "none";
  }

  #inOpened(reasoning: Reasoning): boolean {
    const { open, afterOpen } = reasoning.markers;
    const { text } = this.#pending;
    const rest = text.trimStart();
    const isOpened = rest.startsWith(open);
    if (!isOpened && open.startsWith(rest) && text.length < MAX_LEAD) return false;
    const next: State = { at: "reasoning", reasoning };
    if (isOpened) this.#pending.take(text.length - rest.length + open.length);
    this.#state = isOpened ? { at: "skip", rest: afterOpen, next } : next;
    return true;
  }

  #inReasoning(reasoning: Reasoning): boolean {
    const { markers, ends } = reasoning;
    const { close, beforeClose, afterClose } = markers;
    const { text } = this.#pending;
    const { marks, held } = text.includes(ends.prefix) ? ends.withPrefix : ends.withoutPrefix;
    const found = earliest(text, marks);
    if (found === undefined) {
      this.#think(text.length - heldSuffixLength(text, held));
      return false;
    }
    const isClose = found.mark === close;
    const lead = isClose ? beforeClose : (this.#calls?.reading.separator ?? "");
    const padding = text.slice(0, found.at).endsWith(lead) ? lead.length : 0;
    this.#think(found.at - padding);
    if (!isClose && this.#beginsExample(reasoning, padding)) return true;
    this.#writer.end(true);
    if (isClose) this.#pending.take(padding + close.length);
    this.#visible.beginAnew();
    this.#state = isClose ? { at: "skip", rest: afterClose, next: TEXT } : TEXT;
    return true;
  }

  #inSkip(rest: string, next: State): boolean {
    if (rest.trim() !== "") return this.#inSkippedMark(rest, next);
    if (rest === "" || !this.#pending.text.startsWith(rest.charAt(0))) {
      this.#state = next;
      return true;
    }
    this.#pending.take(1);
    this.#state = { at: "skip", rest: rest.slice(1), next };
    return true;
  }

  #inSkippedMark(mark: string, next: State): boolean {
    const found = markAt(this.#pending.text, 0, [mark]);
    if (found === "partly") return false;
    if (found !== undefined) this.#pending.take(mark.length);
    this.#state = next;
    return true;
  }

  #inCalls(reading: CallReading, step: PassageStep): boolean {
    if (step === "text") this.#state = TEXT;
    else if (step === "separator") this.#state = { at: "skip", rest: reading.separator, next: TEXT };
    else if (step === "done") this.#state = { at: "done" };
    return step !== "needs-more";
  }

  #beginsExample(reasoning: Reasoning, padding: number): boolean {
    const mark = this.#calls?.reading.openers.find((opener) => this.#pending.text.startsWith(opener, padding));
    const fence = this.#hasExamples ? this.#fences.open : undefined;
    if (this.#calls === undefined || mark === undefined || fence === undefined) return false;
    this.#beginCalls(this.#calls, mark, padding + mark.length, fence, reasoning);
    return true;
  }

  /** `mark` ends at `length` UTF-16 units of the pending text; inside a `fence` the calls are examined first. */
  #beginCalls(
    calls: Calls,
    mark: string,
    length: number,
    fence: CodeFence | undefined,
    reasoning: Reasoning | undefined,
  ): void {
    if (!this.#hasExamples || fence === undefined || mark === "") {
      calls.passage.begin(mark, this.#pending.take(length));
      this.#state = { at: "calls", calls };
      return;
    }
    const raw = this.#pending.text.slice(0, length);
    const look = new FencedCalls(calls.reading, mark, length, fence);
    this.#state = { at: "fenced", fenced: { look, calls, mark, raw, reasoning } };
  }

  #inFenced({ look, reasoning }: Fenced): boolean {
    const length = look.push(this.#pending.text);
    if (length === undefined) return false;
    this.#leaveFenced(length, reasoning);
    return true;
  }

  #leaveFenced(length: number, reasoning: Reasoning | undefined): void {
    if (reasoning === undefined) this.#visible.add(this.#pending.take(length));
    else this.#think(length);
    this.#state = reasoning === undefined ? TEXT : { at: "reasoning", reasoning };
  }

  #endFenced({ look, calls, mark, raw, reasoning }: Fenced, reason: "stop" | "cut"): void {
    const { text } = this.#pending;
    if (reason === "stop" && look.areCalls(text)) {
      if (reasoning !== undefined) this.#writer.end(true);
      this.#beginCalls(calls, mark, raw.length, undefined, undefined);
    } else this.#leaveFenced(look.textLength(text), reasoning);
    if (this.#visible.matchedStop !== undefined) return;
    while (this.#pending.text !== "" && this.#step()) {}
    this.#end(reason);
  }

  #think(length: number): void {
    const start = this.#pending.offset;
    const text = this.#pending.take(length);
    this.#fences.push(text);
    this.#writer.append("reasoning", text, start);
  }
}
