import * as z from "zod";
import { charsOf, EMPTY, type Gbnf, literal, markup, repeat, sequence } from "../gbnf/gbnf.ts";
import { ArgumentMender } from "./argument-mender.ts";
import {
  type CallableTools,
  type CallLead,
  type CallProgress,
  CallReader,
  MAX_NAME,
  type Step,
  skipSpace,
} from "./call-reader.ts";
import { JsonScanner } from "./json-scanner.ts";
import { MarkSpellings } from "./mark-spellings.ts";
import { flag, groupedCalls, mark, opening, others, readOnce, text, toolCallForm } from "./tool-call-form.ts";

type SectionCallMarks = {
  readonly callOpen: string;
  readonly nameEnd: string;
  readonly namePrefix: string;
  /** The text between the name and its mark: if it is not empty, any text may stand there. */
  readonly nameTail: string;
  readonly callClose: string;
  /** Whether the name is written as `functions.name:index`, which is the id of the call. */
  readonly nameIsId: boolean;
  readonly idOpen: string;
};

const NUMBERED_NAME = /^(?:functions\.)?(.+):\d+$/s;

/** Reads `NAME nameEnd {…} callClose`. The mark after the name of a known tool may be missing. */
class SectionCallReader extends CallReader {
  readonly #marks: SectionCallMarks;
  readonly #scanner = new JsonScanner({ root: "object", isLoose: true });
  readonly #mender = new ArgumentMender((path) => this.typesAt(path));
  #position: "name" | "before-arguments" | "arguments" | "after" = "name";
  #written = "";

  constructor(marks: SectionCallMarks, tools: CallableTools, lead: CallLead | undefined) {
    super(tools, lead);
    this.#marks = marks;
  }

  protected get isStarted(): boolean {
    return this.#position === "arguments" || this.#position === "after";
  }

  get argumentsAreWhole(): boolean {
    return this.#scanner.isWhole;
  }

  flush(): string {
    return this.#mender.flush();
  }

  protected written(state: CallProgress["state"]): string {
    const written = this.#mender.push(this.#written);
    this.#written = "";
    return state === "malformed" ? written + this.#mender.flush() : written;
  }

  protected step(text: string, from: number): Step {
    const { callClose } = this.#marks;
    if (this.#position === "name") return this.#readHead(text, from);
    if (this.#position === "arguments") {
      const { consumed, state } = this.#scanner.push(text.slice(from));
      const at = from + consumed;
      this.#written += text.slice(from, at);
      if (state !== "complete") return { at, state: state === "invalid" ? "malformed" : "stop" };
      this.#position = "after";
      return { at, state: callClose === "" ? "closed" : "open" };
    }
    const at = skipSpace(text, from);
    if (this.#position === "after") {
      const closed = this.passed(text, at, [callClose]);
      return closed.state === "open" ? { ...closed, state: "closed" } : closed;
    }
    if (at === text.length) return { at, state: "stop" };
    if (text.charAt(at) !== "{") return { at, state: "malformed" };
    this.#position = "arguments";
    return { at, state: "open" };
  }

  #readHead(text: string, at: number): Step {
    const { callOpen, nameEnd, nameTail } = this.#marks;
    const mark = text.indexOf(nameEnd, at);
    const brace = nameTail !== "" ? -1 : text.indexOf("{", at);
    const isForgotten = brace >= 0 && !(mark >= 0 && mark < brace);
    const end = isForgotten ? brace : mark;
    // A mentioned mark must not hide a call after it.
    if (text.slice(at, end < 0 ? text.length : end).includes(callOpen)) return { at, state: "malformed" };
    if (end < 0 && text.length - at < MAX_NAME + nameEnd.length) return { at, state: "stop" };
    if (end < 0 || end - at >= MAX_NAME || !this.#readName(text.slice(at, end).trim()))
      return { at, state: "malformed" };
    if (isForgotten && this.nameIsUnknown) return { at, state: "malformed" };
    this.#position = "before-arguments";
    return { at: isForgotten ? end : end + nameEnd.length, state: "open" };
  }

  #readName(text: string): boolean {
    const { namePrefix, nameTail, nameIsId, idOpen } = this.#marks;
    const idAt = idOpen === "" ? -1 : text.indexOf(idOpen);
    const beforeId = idAt < 0 ? text : text.slice(0, idAt).trim();
    const [head = ""] = nameTail !== "" ? beforeId.split(/[\s<]/) : [beforeId];
    const written = head.startsWith(namePrefix) ? head.slice(namePrefix.length) : head;
    const numbered = nameIsId ? NUMBERED_NAME.exec(written) : null;
    this.name = numbered?.[1] ?? written;
    if (numbered !== null) this.callId = written;
    else if (idAt >= 0) this.callId = text.slice(idAt + idOpen.length).trim() || undefined;
    return this.name !== "";
  }
}

/** Calls as a name and JSON arguments, each between marks inside an outer pair (DeepSeek, Kimi). */
export const sections = toolCallForm({
  schema: z
    .strictObject({
      form: z.literal("sections"),
      open: text.describe("The mark before all calls; empty if none is written."),
      close: text.describe("The mark after all calls; empty if none is written."),
      callOpen: mark.describe("The mark before a call."),
      otherCallOpens: others("Further marks that begin a call"),
      namePrefix: text.describe("The text before the name, which a model may omit; empty if none is written."),
      nameTail: text.describe(
        "The text that the template writes between the name and `nameEnd`; if it is not empty, any text may stand there.",
      ),
      nameEnd: mark.describe("The mark between the name and the arguments."),
      callClose: text.describe("The mark after a call; empty if none is written."),
      nameIsId: flag.describe(
        "Whether the name is written as `functions.name:index`, which is then the id of the call.",
      ),
      idOpen: text.describe("The text between the name and an id; empty if no id is written."),
    })
    .describe("`open callOpen namePrefix NAME nameTail nameEnd {…} callClose … close`"),

  // A template may write the words of the mark in another order.
  usable: (markers, { isKnown }) =>
    [markers.open, ...markers.callOpen.split(" "), markers.nameEnd].every(isKnown) ? markers : undefined,

  reading: readOnce((markers) => {
    const [callOpen, nameEnd, callClose] = [markers.callOpen.trim(), markers.nameEnd.trim(), markers.callClose.trim()];
    const marks = { ...markers, callOpen, nameEnd, callClose };
    const spellings = new MarkSpellings([markers.open, markers.close, callOpen, callClose]);
    const { reading, leadOf } = groupedCalls({ ...markers, separator: "" }, spellings, true);
    return (tools) => ({ ...reading, newReader: (mark) => new SectionCallReader(marks, tools, leadOf(mark)) });
  }),

  markup({ open, otherCallOpens, callOpen, namePrefix, nameTail, nameEnd, callClose, nameIsId, close }) {
    const index = nameIsId ? sequence(literal(":"), repeat(charsOf("09"), 1, 4)) : EMPTY;
    const begins = (name: string) => (nameIsId ? `functions.${name}` : namePrefix + name);
    const rest = (_: string, args: Gbnf) => sequence(index, markup(nameTail + nameEnd), args, markup(callClose));
    return {
      ...(open === "" ? opening(callOpen, "") : opening(open, callOpen, callOpen)),
      begins,
      rest,
      otherCalls: otherCallOpens.map((mark) => ({
        mark,
        call: (name: string, args: Gbnf) =>
          sequence(literal(mark.endsWith(namePrefix) ? name : begins(name)), rest(name, args)),
      })),
      between: callOpen,
      close,
    };
  },
});
