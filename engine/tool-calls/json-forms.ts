import * as z from "zod";
import { literal, markup, sequence } from "../gbnf/gbnf.ts";
import { ArgumentMender } from "./argument-mender.ts";
import type { ArgumentTypes } from "./argument-types.ts";
import { type CallProgress, type CallReader, isSpace, LeadingMarkReader } from "./call-reader.ts";
import { JsonScanner, readStringUnit } from "./json-scanner.ts";
import { type CallMarkup, mark, openersOf, opening, text, toolCallForm } from "./tool-call-form.ts";

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
  readonly close: string;
  readonly argumentsKeys: readonly string[];
  /** The keys that are ignored; `any` ignores all other keys. */
  readonly otherKeys: "any" | readonly string[];
};

type Position =
  | { readonly at: "object" | "first-key" | "key" | "colon" | "value" | "after-value" | "after-object" }
  | { readonly at: "in-key" | "in-name" | "in-null" | "in-other"; readonly scanner: JsonScanner; readonly raw: string }
  | { readonly at: "in-arguments" | "in-arguments-string"; readonly scanner: JsonScanner };

type ScanPosition = Extract<Position, { readonly raw: string }>;

const NAME_KEY = "name";
const NO_ARGUMENTS = "{}";

const anyValue = () => new JsonScanner({ root: "any" });

/**
 * Reads `{"name": …, "arguments": {…}}` and the closing mark. String arguments that hold JSON are unwrapped; missing
 * ones and `null` are an empty object; a missing last brace is accepted. An object without arguments is rejected if an
 * unknown key holds an object, which may be the arguments.
 */
class JsonCallReader implements CallReader {
  readonly #options: JsonCallOptions;
  readonly #knownNames: ReadonlySet<string>;
  readonly #mender: ArgumentMender;
  #position: Position = { at: "object" };
  #key = "";
  #name: string | undefined;
  #argumentsSeen = false;
  argumentsAreWhole = false;
  #isDoubtful = false;
  #waiting = "";

  constructor(options: JsonCallOptions, knownNames: ReadonlySet<string>, types: ArgumentTypes) {
    this.#options = options;
    this.#knownNames = knownNames;
    this.#mender = new ArgumentMender((path) => types(this.#name ?? "", path));
  }

  get startedName(): string | undefined {
    return this.#argumentsSeen && !this.nameIsUnknown ? this.#name : undefined;
  }

  get nameIsUnknown(): boolean {
    return this.#name !== undefined && !this.#knownNames.has(this.#name);
  }

  flush(): string {
    return this.#mender.flush();
  }

  push(text: string): CallProgress {
    let at = 0;
    let state: CallProgress["state"] = "open";
    while (at < text.length && state === "open") {
      const step = this.#step(text, at);
      at += step.consumed;
      state = step.state;
      if (step.consumed === 0 && state === "open" && !step.again) break;
    }
    let ready = "";
    if (this.startedName !== undefined) {
      ready = this.#mender.push(this.#waiting);
      this.#waiting = "";
      if (state === "malformed") ready += this.#mender.flush();
    }
    return { consumed: at, arguments: ready, state };
  }

  #step(text: string, at: number): Step {
    const position = this.#position;
    switch (position.at) {
      case "in-key":
      case "in-name":
      case "in-null":
      case "in-other":
        return this.#scan(position, text.slice(at));
      case "in-arguments":
        return this.#scanArguments(position.scanner, text.slice(at));
      case "in-arguments-string":
        return this.#unwrapArguments(position.scanner, text, at);
      default:
        return isSpace(text.charAt(at)) ? TAKE_ONE : this.#punctuation(position.at, text, at);
    }
  }

  #punctuation(position: Exclude<Position, { readonly scanner: JsonScanner }>["at"], text: string, at: number): Step {
    const char = text.charAt(at);
    switch (position) {
      case "object":
        return this.#expect(char === "{", "first-key");
      case "first-key":
      case "key":
        if (char === "}" && position === "first-key") return this.#endObject();
        if (char !== '"') return MALFORMED;
        this.#position = { at: "in-key", scanner: anyValue(), raw: "" };
        return AGAIN;
      case "colon":
        return this.#expect(char === ":", "value");
      case "value":
        return this.#startValue(char);
      case "after-value":
        if (char === ",") return this.#expect(true, "key");
        if (char === "}") return this.#endObject();
        return this.argumentsAreWhole ? this.#readClose(text, at) : MALFORMED;
      case "after-object":
        return this.#readClose(text, at);
    }
  }

  #expect(allowed: boolean, next: "first-key" | "key" | "value"): Step {
    if (!allowed) return MALFORMED;
    this.#position = { at: next };
    return TAKE_ONE;
  }

  #startValue(char: string): Step {
    const { argumentsKeys, otherKeys } = this.#options;
    if (this.#key === NAME_KEY && this.#name === undefined) {
      if (char !== '"') return MALFORMED;
      this.#position = { at: "in-name", scanner: anyValue(), raw: "" };
      return AGAIN;
    }
    if (!argumentsKeys.includes(this.#key) || this.#argumentsSeen) {
      if (otherKeys !== "any" && !otherKeys.includes(this.#key)) return MALFORMED;
      this.#isDoubtful ||= char === "{" || otherKeys !== "any";
      this.#position = { at: "in-other", scanner: anyValue(), raw: "" };
      return AGAIN;
    }
    const scanner = new JsonScanner({ root: "object", isLoose: true });
    if (char === "{") this.#position = { at: "in-arguments", scanner };
    else if (char === "n") this.#position = { at: "in-null", scanner: anyValue(), raw: "" };
    else if (char === '"') {
      this.#position = { at: "in-arguments-string", scanner };
      return TAKE_ONE;
    } else return MALFORMED;
    return AGAIN;
  }

  #scan(position: ScanPosition, text: string): Step {
    const { consumed, state } = position.scanner.push(text);
    if (state === "invalid") return { consumed, state: "malformed" };
    const raw = position.at === "in-other" ? "" : position.raw + text.slice(0, consumed);
    if (state === "incomplete") {
      this.#position = { ...position, raw };
      return { consumed, state: "open" };
    }
    this.#position = { at: position.at === "in-key" ? "colon" : "after-value" };
    if (position.at === "in-key") this.#key = String(JSON.parse(raw));
    else if (position.at === "in-name") this.#name = String(JSON.parse(raw));
    else if (position.at === "in-null") this.#noArguments();
    return { consumed, state: "open", again: true };
  }

  #scanArguments(scanner: JsonScanner, text: string): Step {
    const { consumed, state } = scanner.push(text);
    this.#argumentsSeen = true;
    this.#waiting += text.slice(0, consumed);
    if (state === "invalid") return { consumed, state: "malformed" };
    if (state === "incomplete") return { consumed, state: "open" };
    this.argumentsAreWhole = true;
    this.#position = { at: "after-value" };
    return { consumed, state: "open", again: true };
  }

  #unwrapArguments(scanner: JsonScanner, text: string, at: number): Step {
    const unit = readStringUnit(text, at);
    if (unit.kind === "needs-more") return { consumed: 0, state: "open" };
    if (unit.kind === "invalid") return MALFORMED;
    if (unit.kind === "end") {
      if (!this.argumentsAreWhole) return MALFORMED;
      this.#position = { at: "after-value" };
      return TAKE_ONE;
    }
    const { consumed, state } = scanner.push(unit.text);
    if (state === "invalid") return MALFORMED;
    const isPadding = unit.text.trim() === "" && (!this.#argumentsSeen || consumed === 0);
    if (isPadding) return { consumed: unit.length, state: "open" };
    if (consumed < unit.text.length) return MALFORMED;
    this.#argumentsSeen = true;
    this.argumentsAreWhole = scanner.isWhole;
    this.#waiting += unit.text;
    return { consumed: unit.length, state: "open" };
  }

  #noArguments(): void {
    this.#argumentsSeen = true;
    this.argumentsAreWhole = true;
    this.#waiting = NO_ARGUMENTS;
  }

  #endObject(): Step {
    if (this.#name === undefined) return MALFORMED;
    if (!this.#argumentsSeen && this.#isDoubtful) return MALFORMED;
    if (!this.#argumentsSeen) this.#noArguments();
    this.#position = { at: "after-object" };
    return this.#options.close === "" ? { consumed: 1, state: "closed" } : TAKE_ONE;
  }

  #readClose(text: string, at: number): Step {
    const { close } = this.#options;
    const rest = text.slice(at, at + close.length);
    if (rest === close) return { consumed: rest.length, state: "closed" };
    return close.startsWith(rest) ? { consumed: 0, state: "open" } : MALFORMED;
  }
}

/** The result of a step; `again` if nothing was consumed but the position changed. */
type Step = { readonly consumed: number; readonly state: CallProgress["state"]; readonly again?: boolean };

const TAKE_ONE: Step = { consumed: 1, state: "open" };
const AGAIN: Step = { consumed: 0, state: "open", again: true };
const MALFORMED: Step = { consumed: 0, state: "malformed" };

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

  reading({ open, close, separator }, { names, argumentTypes }) {
    const options = { close, argumentsKeys: ARGUMENTS_KEYS, otherKeys: "any" } as const;
    const newReader = () => new JsonCallReader(options, names, argumentTypes);
    return { openers: [open], opensAtBrace: false, next: "", close: "", separator, newReader };
  },

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

  reading(markers, { names, argumentTypes }) {
    const open = markers.open.trim();
    const options = { close: "", argumentsKeys: ARGUMENTS_KEYS, otherKeys: "any" } as const;
    const newReader = () => new JsonCallReader(options, names, argumentTypes);
    return {
      openers: [open],
      opensAtBrace: false,
      next: ",",
      close: `]${markers.close.trim()}`,
      separator: "",
      newReader: (found) => (found === open ? new LeadingMarkReader("[", newReader()) : newReader()),
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

  reading({ argumentsKey, prefix, separator }, { names, argumentTypes }) {
    const argumentsKeys = [...new Set([argumentsKey, ...ARGUMENTS_KEYS])];
    const options = { close: "", argumentsKeys, otherKeys: PASSED_KEYS } as const;
    return {
      openers: openersOf(prefix),
      opensAtBrace: true,
      next: separator.trim(),
      close: "",
      separator: "",
      newReader: () => new JsonCallReader(options, names, argumentTypes),
    };
  },

  markup({ argumentsKey, prefix, separator }) {
    return {
      ...opening("", "", prefix),
      opensAtBrace: true,
      ...jsonObjectCall(argumentsKey, ""),
      between: separator,
      close: "",
    };
  },
});
