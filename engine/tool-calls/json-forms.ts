import * as z from "zod";
import { literal, markup, sequence } from "../gbnf/gbnf.ts";
import { ArgumentMender } from "./argument-mender.ts";
import { type CallableTools, type CallLead, type CallProgress, CallReader, type Step } from "./call-reader.ts";
import { isSpace, JsonScanner, readStringUnit } from "./json-scanner.ts";
import { MarkSet } from "./mark-set.ts";
import { allOf, brokenMark, MarkSpellings } from "./mark-spellings.ts";
import {
  type CallMarkup,
  mark,
  openersOf,
  opening,
  readOnce,
  text,
  toolCallForm,
  UNGROUPED,
} from "./tool-call-form.ts";

const ARGUMENTS_KEY = "arguments";
/** The keys that models write for the arguments, whatever their template uses. */
const ARGUMENTS_KEYS: readonly string[] = [ARGUMENTS_KEY, "parameters"];

/** Returns the grammar of a call that is an object, `{"name": …, argumentsKey: {…}}`, followed by `end`. */
function jsonObjectCall(argumentsKey: string, end: string): Pick<CallMarkup, "begins" | "rest"> {
  return {
    begins: () => "{",
    rest: (name, args) =>
      sequence(literal(`"name": ${JSON.stringify(name)}, ${JSON.stringify(argumentsKey)}: `), args, markup(`}${end}`)),
  };
}

type JsonCallOptions = {
  /** The marks after a call; none if there is no mark. */
  readonly closes?: readonly string[];
  readonly argumentsKeys?: readonly string[];
  /** The keys that are ignored. Default: all others. */
  readonly otherKeys?: readonly string[];
};

type Position =
  | { readonly at: "object" | "first-key" | "key" | "colon" | "value" | "after-value" | "after-object" }
  | { readonly at: "in-key" | "in-name" | "in-null" | "in-other"; readonly scanner: JsonScanner; readonly raw: string }
  | { readonly at: "in-arguments" | "in-arguments-string"; readonly scanner: JsonScanner };

type ScanPosition = Extract<Position, { readonly raw: string }>;

const NAME_KEY = "name";
const NO_ARGUMENTS = "{}";

/**
 * Reads `{"name": …, "arguments": {…}}` and the closing mark. String arguments that hold JSON are unwrapped; missing
 * ones and `null` are an empty object; a missing last brace is accepted. An object without arguments is rejected if an
 * unknown key holds an object, which may be the arguments.
 */
class JsonCallReader extends CallReader {
  readonly #options: JsonCallOptions;
  readonly #mender = new ArgumentMender((path) => this.typesAt(path));
  #position: Position = { at: "object" };
  #key = "";
  protected isStarted = false;
  argumentsAreWhole = false;
  #isDoubtful = false;
  #waiting = "";

  constructor(tools: CallableTools, lead?: CallLead, options: JsonCallOptions = {}) {
    super(tools, lead);
    this.#options = options;
  }

  flush(): string {
    return this.#mender.flush();
  }

  protected written(state: CallProgress["state"]): string {
    // The arguments may come before the name.
    if (this.startedName === undefined) return "";
    const written = this.#mender.push(this.#waiting);
    this.#waiting = "";
    return state === "malformed" ? written + this.#mender.flush() : written;
  }

  protected step(text: string, at: number): Step {
    const position = this.#position;
    if (at === text.length) return { at, state: "stop" };
    switch (position.at) {
      case "in-key":
      case "in-name":
      case "in-null":
      case "in-other":
        return this.#scan(position, text, at);
      case "in-arguments":
        return this.#scanArguments(position.scanner, text, at);
      case "in-arguments-string":
        return this.#unwrapArguments(position.scanner, text, at);
      default:
        return isSpace(text.charAt(at)) ? { at: at + 1, state: "open" } : this.#punctuation(position.at, text, at);
    }
  }

  #punctuation(position: Exclude<Position, { readonly scanner: JsonScanner }>["at"], text: string, at: number): Step {
    const char = text.charAt(at);
    switch (position) {
      case "object":
        return char === "{" ? this.#go("first-key", at + 1) : { at, state: "malformed" };
      case "first-key":
      case "key":
        if (char === "}" && position === "first-key") return this.#endObject(at);
        return char === '"' ? this.#scanAs("in-key", at) : { at, state: "malformed" };
      case "colon":
        return char === ":" ? this.#go("value", at + 1) : { at, state: "malformed" };
      case "value":
        return this.#startValue(char, at);
      case "after-value":
        if (char === ",") return this.#go("key", at + 1);
        if (char === "}") return this.#endObject(at);
        return this.argumentsAreWhole ? this.#readClose(text, at) : { at, state: "malformed" };
      case "after-object":
        return this.#readClose(text, at);
    }
  }

  #go(position: Exclude<Position, { readonly scanner: JsonScanner }>["at"], at: number): Step {
    this.#position = { at: position };
    return { at, state: "open" };
  }

  #scanAs(position: ScanPosition["at"], at: number): Step {
    this.#position = { at: position, scanner: new JsonScanner({ root: "any" }), raw: "" };
    return { at, state: "open" };
  }

  #startValue(char: string, at: number): Step {
    const { argumentsKeys = ARGUMENTS_KEYS, otherKeys } = this.#options;
    if (this.#key === NAME_KEY && this.name === undefined)
      return char === '"' ? this.#scanAs("in-name", at) : { at, state: "malformed" };
    if (!argumentsKeys.includes(this.#key) || this.isStarted) {
      if (otherKeys !== undefined && !otherKeys.includes(this.#key)) return { at, state: "malformed" };
      this.#isDoubtful ||= char === "{" || otherKeys !== undefined;
      return this.#scanAs("in-other", at);
    }
    if (char === "n") return this.#scanAs("in-null", at);
    if (char !== "{" && char !== '"') return { at, state: "malformed" };
    const scanner = new JsonScanner({ root: "object", isLoose: true });
    this.#position = { at: char === "{" ? "in-arguments" : "in-arguments-string", scanner };
    return { at: char === "{" ? at : at + 1, state: "open" };
  }

  #scan(position: ScanPosition, text: string, from: number): Step {
    const { consumed, state } = position.scanner.push(text.slice(from));
    const at = from + consumed;
    if (state === "invalid") return { at, state: "malformed" };
    const raw = position.at === "in-other" ? "" : position.raw + text.slice(from, at);
    if (state === "incomplete") {
      this.#position = { ...position, raw };
      return { at, state: "stop" };
    }
    if (position.at === "in-key") this.#key = String(JSON.parse(raw));
    else if (position.at === "in-name") this.name = String(JSON.parse(raw));
    else if (position.at === "in-null") this.#noArguments();
    return this.#go(position.at === "in-key" ? "colon" : "after-value", at);
  }

  #scanArguments(scanner: JsonScanner, text: string, from: number): Step {
    const { consumed, state } = scanner.push(text.slice(from));
    const at = from + consumed;
    this.isStarted = true;
    this.#waiting += text.slice(from, at);
    if (state !== "complete") return { at, state: state === "invalid" ? "malformed" : "stop" };
    this.argumentsAreWhole = true;
    return this.#go("after-value", at);
  }

  #unwrapArguments(scanner: JsonScanner, text: string, at: number): Step {
    const unit = readStringUnit(text, at);
    if (unit.kind === "needs-more") return { at, state: "stop" };
    if (unit.kind === "invalid") return { at, state: "malformed" };
    if (unit.kind === "end")
      return this.argumentsAreWhole ? this.#go("after-value", at + 1) : { at, state: "malformed" };
    const { consumed, state } = scanner.push(unit.text);
    if (state === "invalid") return { at, state: "malformed" };
    const isPadding = unit.text.trim() === "" && (!this.isStarted || consumed === 0);
    if (isPadding) return { at: at + unit.length, state: "open" };
    if (consumed < unit.text.length) return { at, state: "malformed" };
    this.isStarted = true;
    this.argumentsAreWhole = scanner.isWhole;
    this.#waiting += unit.text;
    return { at: at + unit.length, state: "open" };
  }

  #noArguments(): void {
    this.isStarted = true;
    this.argumentsAreWhole = true;
    this.#waiting = NO_ARGUMENTS;
  }

  #endObject(at: number): Step {
    if (this.name === undefined || (!this.isStarted && this.#isDoubtful)) return { at, state: "malformed" };
    if (!this.isStarted) this.#noArguments();
    return this.#options.closes === undefined ? { at: at + 1, state: "closed" } : this.#go("after-object", at + 1);
  }

  #readClose(text: string, at: number): Step {
    const { closes = [] } = this.#options;
    // A form without a mark after a call is closed here, too.
    const step: Step = closes.length === 0 ? { at, state: "open" } : this.passed(text, at, closes);
    return step.state === "open" ? { ...step, state: "closed" } : step;
  }
}

/** Calls as objects between marks (Hermes, Qwen); several calls have several pairs of marks. */
export const json = toolCallForm({
  schema: z
    .strictObject({
      form: z.literal("json"),
      open: mark.describe("The mark before a call."),
      close: mark.describe("The mark after a call."),
      afterOpen: text.describe("The white space that the template writes after `open`."),
      beforeClose: text.describe("The white space that the template writes before `close`."),
      separator: text.describe("The text between the visible text and the first call, and between two calls."),
    })
    .describe('`open afterOpen {"name": …, "arguments": {…}} beforeClose close`'),

  usable: (markers, { isKnown }) => (isKnown(markers.open) && isKnown(markers.close) ? markers : undefined),

  reading: readOnce(({ open, close, separator }) => {
    const closers = allOf(new MarkSpellings([open, close]).strayClosers([close])).marks;
    const reading = { ...UNGROUPED, openers: [open], callClose: close.trim(), closers, separator };
    const generic = { ...reading, openers: [open, brokenMark(open)], closers: [...closers, brokenMark(close.trim())] };
    return (tools) => ({
      ...(tools.areGeneric ? generic : reading),
      newReader: () =>
        new JsonCallReader(tools, undefined, { closes: tools.areGeneric ? [close, brokenMark(close)] : [close] }),
    });
  }),

  markup({ open, afterOpen, beforeClose, close, separator }) {
    return {
      ...opening(open, afterOpen),
      ...jsonObjectCall(ARGUMENTS_KEY, beforeClose + close),
      between: separator + open + afterOpen,
      close: "",
    };
  },
});

/** Calls as a list of objects after one mark (Mistral). */
export const jsonList = toolCallForm({
  schema: z
    .strictObject({
      form: z.literal("json-list"),
      open: mark.describe("The mark before the list."),
      close: text.describe("The mark after the list; empty if none is written."),
    })
    .describe('`open [{"name": …, "arguments": {…}}, …] close`'),

  usable: (markers, { isKnown }) => (isKnown(markers.open) && isKnown(markers.close) ? markers : undefined),

  reading(markers, tools) {
    const open = markers.open.trim();
    const close = `]${markers.close.trim()}`;
    const lead: CallLead = { next: new MarkSet(["["]), outer: new MarkSet(), close: new MarkSet() };
    return {
      ...UNGROUPED,
      openers: [open],
      next: ",",
      close,
      closers: [close],
      newReader: (found) => new JsonCallReader(tools, found === open ? lead : undefined),
    };
  },

  markup({ open, close }) {
    return {
      ...opening(open, "["),
      ...jsonObjectCall(ARGUMENTS_KEY, ""),
      between: ", ",
      close: `]${close}`,
    };
  },
});

const PASSED_KEYS = ["type", "id"];

/** Calls as an object without marks (Llama 3), at the start of the text only. */
export const bareJson = toolCallForm({
  schema: z
    .strictObject({
      form: z.literal("bare-json"),
      argumentsKey: mark.describe("The key under which the arguments stand."),
      prefix: text.describe("The optional mark before the object; empty for none."),
      separator: text.describe("The text between two calls."),
    })
    .describe('`{"name": …, argumentsKey: {…}}`, with no mark around it'),

  usable(markers, { template, isKnown }) {
    // A brace is no mark: only the template shows whether the model calls tools.
    if (!/\btools\b/.test(template)) return undefined;
    return isKnown(markers.prefix) ? markers : { ...markers, prefix: "" };
  },

  reading({ argumentsKey, prefix, separator }, tools) {
    const options = { argumentsKeys: [...new Set([argumentsKey, ...ARGUMENTS_KEYS])], otherKeys: PASSED_KEYS };
    return {
      ...UNGROUPED,
      openers: openersOf(prefix),
      opensAtBrace: true,
      next: separator.trim(),
      newReader: () => new JsonCallReader(tools, undefined, options),
    };
  },

  markup({ argumentsKey, prefix, separator }) {
    return {
      ...opening("", "", prefix),
      head: '{"name": "',
      ...jsonObjectCall(argumentsKey, ""),
      between: separator,
      close: "",
    };
  },
});
