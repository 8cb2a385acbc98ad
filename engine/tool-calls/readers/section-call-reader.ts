import { ArgumentMender } from "./argument-mender.ts";
import type { ArgumentTypes } from "./argument-types.ts";
import { type CallProgress, type CallReader, MAX_NAME, markAt, skipSpace } from "./call-reader.ts";
import { JsonScanner } from "./json-scanner.ts";

/** The marks of a call whose arguments are one JSON object behind a name. */
export type SectionCallMarks = {
  /** The opening mark of a call. */
  readonly callOpen: string;
  /** The mark behind the name. */
  readonly nameEnd: string;
  /** What may stand before the name and is no part of it; "" where nothing does. */
  readonly namePrefix: string;
  /** What stands between the name and its mark: any text where it is not empty. */
  readonly nameTail: string;
  /** The closing mark; "" where the call ends with its arguments. */
  readonly callClose: string;
  /** Whether the name is written as `functions.name:index`, which is then the id of the call. */
  readonly nameIsId: boolean;
  /** What stands between the name and an id of the call; "" where none is written. */
  readonly idOpen: string;
};

const NUMBERED_NAME = /^(?:functions\.)?(.+):\d+$/s;

/** Reads `NAME nameEnd {…} callClose`. The mark behind the name of a tool that is known may be missing. */
export class SectionCallReader implements CallReader {
  readonly #callOpen: string;
  readonly #nameEnd: string;
  readonly #namePrefix: string;
  readonly #hasTail: boolean;
  readonly #callClose: string;
  readonly #idOpen: string;
  readonly #nameIsId: boolean;
  readonly #knownNames: ReadonlySet<string>;
  readonly #scanner = new JsonScanner({ root: "object", isLoose: true });
  readonly #mender: ArgumentMender;
  #position: "name" | "before-arguments" | "arguments" | "after" = "name";
  #name: string | undefined;
  #callId: string | undefined;

  /** Reads calls of the tools `knownNames`, whose arguments have the types `types`. */
  constructor(marks: SectionCallMarks, knownNames: ReadonlySet<string>, types: ArgumentTypes) {
    this.#callOpen = marks.callOpen.trim();
    this.#nameEnd = marks.nameEnd.trim();
    this.#namePrefix = marks.namePrefix;
    this.#hasTail = marks.nameTail !== "";
    this.#callClose = marks.callClose.trim();
    this.#idOpen = marks.idOpen;
    this.#nameIsId = marks.nameIsId;
    this.#knownNames = knownNames;
    this.#mender = new ArgumentMender((path) => types(this.#name ?? "", path));
  }

  /** The name of the tool, once it and the start of the arguments have been seen and it is a known one. */
  get startedName(): string | undefined {
    const isStarted = this.#position === "arguments" || this.#position === "after";
    return isStarted && !this.nameIsUnknown ? this.#name : undefined;
  }

  /** Whether the name has been read and is that of no tool. */
  get nameIsUnknown(): boolean {
    return this.#name !== undefined && !this.#knownNames.has(this.#name);
  }

  /** The id that the model gave the call; undefined where it gave none, or before the name is known. */
  get callId(): string | undefined {
    return this.#callId;
  }

  /** Whether the arguments that have gone out are a whole JSON object. */
  get argumentsAreWhole(): boolean {
    return this.#scanner.isWhole;
  }

  /** Returns the text of the arguments that was held back, where the output ends inside the call. */
  flush(): string {
    return this.#mender.flush();
  }

  /** Takes the next piece of the call. */
  push(text: string): CallProgress {
    let at = 0;
    let ready = "";
    const progress = (state: CallProgress["state"]): CallProgress => ({ consumed: at, arguments: ready, state });
    if (this.#position === "name") {
      const mark = text.indexOf(this.#nameEnd);
      const brace = this.#hasTail ? -1 : text.indexOf("{");
      const isForgotten = brace >= 0 && !(mark >= 0 && mark < brace);
      const end = isForgotten ? brace : mark;
      // A mark that was only mentioned hides no call behind it.
      if (text.slice(0, end < 0 ? text.length : end).includes(this.#callOpen)) return progress("malformed");
      if (end < 0 && text.length < MAX_NAME + this.#nameEnd.length) return progress("open");
      if (end < 0 || end >= MAX_NAME || !this.#readName(text.slice(0, end).trim())) return progress("malformed");
      if (isForgotten && this.nameIsUnknown) return progress("malformed");
      at = isForgotten ? end : end + this.#nameEnd.length;
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
    if (this.#callClose === "") return progress("closed");
    at = skipSpace(text, at);
    const close = markAt(text, at, [this.#callClose]);
    if (close === undefined) return progress("malformed");
    if (close === "partly") return progress("open");
    at += this.#callClose.length;
    return progress("closed");
  }

  /** Takes the text before the arguments apart; false where there is no name in it. */
  #readName(text: string): boolean {
    const idAt = this.#idOpen === "" ? -1 : text.indexOf(this.#idOpen);
    const beforeId = idAt < 0 ? text : text.slice(0, idAt).trim();
    const [head = ""] = this.#hasTail ? beforeId.split(/[\s<]/) : [beforeId];
    const written = head.startsWith(this.#namePrefix) ? head.slice(this.#namePrefix.length) : head;
    const numbered = this.#nameIsId ? NUMBERED_NAME.exec(written) : null;
    this.#name = numbered?.[1] ?? written;
    if (numbered !== null) this.#callId = written;
    else if (idAt >= 0) this.#callId = text.slice(idAt + this.#idOpen.length).trim() || undefined;
    return this.#name !== "";
  }
}
