import * as z from "zod";
import { charsOf, EMPTY, type Gbnf, literal, markup, repeat, sequence } from "../gbnf/gbnf.ts";
import { ArgumentMender } from "./argument-mender.ts";
import type { ArgumentTypes } from "./argument-types.ts";
import { type CallProgress, type CallReader, MAX_NAME, markAt, skipSpace } from "./call-reader.ts";
import { JsonScanner } from "./json-scanner.ts";
import { groupedCalls, mark, opening, text, toolCallForm } from "./tool-call-form.ts";

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
class SectionCallReader implements CallReader {
  readonly #marks: SectionCallMarks;
  readonly #knownNames: ReadonlySet<string>;
  readonly #scanner = new JsonScanner({ root: "object", isLoose: true });
  readonly #mender: ArgumentMender;
  #position: "name" | "before-arguments" | "arguments" | "after" = "name";
  #name: string | undefined;
  callId: string | undefined;

  constructor(marks: SectionCallMarks, knownNames: ReadonlySet<string>, types: ArgumentTypes) {
    this.#marks = marks;
    this.#knownNames = knownNames;
    this.#mender = new ArgumentMender((path) => types(this.#name ?? "", path));
  }

  get startedName(): string | undefined {
    const isStarted = this.#position === "arguments" || this.#position === "after";
    return isStarted && !this.nameIsUnknown ? this.#name : undefined;
  }

  get nameIsUnknown(): boolean {
    return this.#name !== undefined && !this.#knownNames.has(this.#name);
  }

  get argumentsAreWhole(): boolean {
    return this.#scanner.isWhole;
  }

  flush(): string {
    return this.#mender.flush();
  }

  push(text: string): CallProgress {
    const { callOpen, nameEnd, nameTail, callClose } = this.#marks;
    let at = 0;
    let ready = "";
    const progress = (state: CallProgress["state"]): CallProgress => ({ consumed: at, arguments: ready, state });
    if (this.#position === "name") {
      const mark = text.indexOf(nameEnd);
      const brace = nameTail !== "" ? -1 : text.indexOf("{");
      const isForgotten = brace >= 0 && !(mark >= 0 && mark < brace);
      const end = isForgotten ? brace : mark;
      // A mentioned mark must not hide a call after it.
      if (text.slice(0, end < 0 ? text.length : end).includes(callOpen)) return progress("malformed");
      if (end < 0 && text.length < MAX_NAME + nameEnd.length) return progress("open");
      if (end < 0 || end >= MAX_NAME || !this.#readName(text.slice(0, end).trim())) return progress("malformed");
      if (isForgotten && this.nameIsUnknown) return progress("malformed");
      at = isForgotten ? end : end + nameEnd.length;
      this.#position = "before-arguments";
    }
    if (this.#position === "before-arguments") {
      at = skipSpace(text, at);
      if (at === text.length) return progress("open");
      if (text.charAt(at) !== "{") return progress("malformed");
      this.#position = "arguments";
    }
    if (this.#position === "arguments") {
      const { consumed, state } = this.#scanner.push(text.slice(at));
      if (!this.nameIsUnknown) ready = this.#mender.push(text.slice(at, at + consumed));
      if (state === "invalid") ready += this.#mender.flush();
      at += consumed;
      if (state !== "complete") return progress(state === "invalid" ? "malformed" : "open");
      this.#position = "after";
    }
    if (callClose === "") return progress("closed");
    at = skipSpace(text, at);
    const close = markAt(text, at, [callClose]);
    if (close === undefined) return progress("malformed");
    if (close === "partly") return progress("open");
    at += callClose.length;
    return progress("closed");
  }

  #readName(text: string): boolean {
    const { namePrefix, nameTail, nameIsId, idOpen } = this.#marks;
    const idAt = idOpen === "" ? -1 : text.indexOf(idOpen);
    const beforeId = idAt < 0 ? text : text.slice(0, idAt).trim();
    const [head = ""] = nameTail !== "" ? beforeId.split(/[\s<]/) : [beforeId];
    const written = head.startsWith(namePrefix) ? head.slice(namePrefix.length) : head;
    const numbered = nameIsId ? NUMBERED_NAME.exec(written) : null;
    this.#name = numbered?.[1] ?? written;
    if (numbered !== null) this.callId = written;
    else if (idAt >= 0) this.callId = text.slice(idAt + idOpen.length).trim() || undefined;
    return this.#name !== "";
  }
}

/** Calls as a name and JSON arguments, each between marks inside an outer pair (DeepSeek, Kimi). */
export const sections = toolCallForm({
  schema: z
    .strictObject({
      form: z.literal("sections"),
      open: text.describe("The mark before all calls; empty if none is written."),
      close: text.describe("The mark after all calls; empty if none is written."),
      otherOpens: z
        .array(mark)
        .default([])
        .describe("The marks that models write instead of `open` by mistake; they are parsed, but never written."),
      otherCloses: z
        .array(mark)
        .default([])
        .describe("The marks that models write instead of `close` by mistake; they are parsed, but never written."),
      callOpen: mark.describe("The mark before a call."),
      otherCallOpens: z
        .array(mark)
        .default([])
        .describe("Further marks that begin a call; they are parsed, but never written."),
      namePrefix: text.describe("The text before the name, which a model may omit; empty if none is written."),
      nameTail: text.describe(
        "The text that the template writes between the name and `nameEnd`; if it is not empty, any text may stand there.",
      ),
      nameEnd: mark.describe("The mark between the name and the arguments."),
      callClose: text.describe("The mark after a call; empty if none is written."),
      nameIsId: z
        .boolean()
        .default(false)
        .describe("Whether the name is written as `functions.name:index`, which is then the id of the call."),
      idOpen: text.describe("The text between the name and an id; empty if no id is written."),
    })
    .describe("`open callOpen namePrefix NAME nameTail nameEnd {…} callClose … close`"),

  // A template may write the words of the mark in another order.
  usable: (markers, { isKnown }) =>
    [markers.open, ...markers.callOpen.split(" "), markers.nameEnd].every(isKnown) ? markers : undefined,

  reading(markers, { names, argumentTypes }) {
    const [callOpen, nameEnd, callClose] = [markers.callOpen.trim(), markers.nameEnd.trim(), markers.callClose.trim()];
    const marks = { ...markers, callOpen, nameEnd, callClose };
    const newReader = () => new SectionCallReader(marks, names, argumentTypes);
    return groupedCalls({ ...markers, separator: "", dropsStrays: true }, newReader);
  },

  markup({ open, otherOpens, otherCallOpens, callOpen, namePrefix, nameTail, nameEnd, callClose, nameIsId, close }) {
    const index = nameIsId ? sequence(literal(":"), repeat(charsOf("09"), 1, 4)) : EMPTY;
    const begins = (name: string) => (nameIsId ? `functions.${name}` : namePrefix + name);
    const rest = (_: string, args: Gbnf) => sequence(index, markup(nameTail + nameEnd), args, markup(callClose));
    return {
      ...(open === "" ? opening(callOpen, "") : opening(open, callOpen, callOpen)),
      otherOpens,
      begins,
      rest,
      ...(otherCallOpens.length > 0
        ? {
            otherCalls: otherCallOpens.map((mark) => ({
              mark,
              call: (name: string, args: Gbnf) =>
                sequence(literal(mark.endsWith(namePrefix) ? name : begins(name)), rest(name, args)),
            })),
          }
        : {}),
      between: callOpen,
      close,
    };
  },
});
