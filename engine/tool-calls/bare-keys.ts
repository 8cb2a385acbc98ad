import * as z from "zod";
import { literal, markup, sequence } from "../gbnf/gbnf.ts";
import { ITEM, type JsonType } from "./argument-types.ts";
import { inString, jsonOf } from "./argument-writer.ts";
import { type CallableTools, CallReader, heldSuffixLength, MAX_NAME, type Step, skipSpace } from "./call-reader.ts";
import { JsonScanner } from "./json-scanner.ts";
import { markAt } from "./mark-set.ts";
import { mark, openersOf, opening, others, toolCallForm, UNGROUPED } from "./tool-call-form.ts";

type BareKeyCallMarks = {
  readonly heads: readonly string[];
  /** The mark before and after a text, in place of quotation marks. */
  readonly textMark: string;
  readonly close: string;
};

type Position = "head" | "name" | "key" | "value" | "text" | "json" | "behind-value" | "close";

type Level = { readonly kind: "object" | "list"; entries: number; key: string };

const MAX_DEPTH = 128;
const MAX_BARE = 16 * 1024;

const WORD = /[\w.+-]+/y;
const KEY = /[^\s{}[\],:<>"][^{}[\],:<>"\n]*/y;

/**
 * Reads `HEAD NAME{key:value,…}` and the closing mark. Unambiguous mistakes are accepted: a text without its first
 * mark, JSON quotation marks, a single bare word, a redundant comma, and a missing mark after the call.
 */
class BareKeyCallReader extends CallReader {
  readonly #marks: BareKeyCallMarks;
  readonly #levels: Level[] = [];
  #position: Position = "head";
  #scanner = new JsonScanner({ root: "any" });
  #written = "";
  protected readonly isStarted = true;

  constructor(marks: BareKeyCallMarks, tools: CallableTools) {
    super(tools);
    this.#marks = marks;
  }

  get argumentsAreWhole(): boolean {
    return this.#position === "close";
  }

  flush(rest: string): string {
    return this.#position === "text" ? inString(rest) : "";
  }

  protected written(): string {
    const written = this.#written;
    this.#written = "";
    return written;
  }

  protected step(text: string, from: number): Step {
    if (this.#position === "text") return this.#readText(text, from);
    if (this.#position === "json") return this.#readJson(text, from);
    const at = skipSpace(text, from);
    if (at === text.length) return { at, state: "stop" };
    switch (this.#position) {
      case "head": {
        const passed = this.passed(text, at, this.#marks.heads);
        return passed.state === "open" ? this.#go("name", passed.at) : passed;
      }
      case "name":
        return this.#readName(text, at);
      case "key":
        return this.#readKey(text, at);
      case "value":
        return this.#readValue(text, at);
      case "behind-value":
        return this.#readBehindValue(text, at);
      case "close": {
        const passed = this.passed(text, at, [this.#marks.close]);
        return passed.state === "open" ? { ...passed, state: "closed" } : passed;
      }
    }
  }

  #go(position: Position, at: number): Step {
    this.#position = position;
    return { at, state: "open" };
  }

  #readName(text: string, at: number): Step {
    const brace = text.indexOf("{", at);
    if (brace < 0 && text.length - at < MAX_NAME) return { at, state: "stop" };
    const name = text.slice(at, brace).trim();
    if (brace < 0 || brace - at >= MAX_NAME || !/^[^\s<>{}]+$/.test(name)) return { at, state: "malformed" };
    this.name = name;
    return this.#begin("object", brace);
  }

  #begin(kind: Level["kind"], at: number): Step {
    if (this.#levels.length >= MAX_DEPTH) return { at, state: "malformed" };
    this.#levels.push({ kind, entries: 0, key: "" });
    this.#written += kind === "object" ? "{" : "[";
    return this.#go(kind === "object" ? "key" : "value", at + 1);
  }

  #end(at: number): Step {
    this.#written += this.#levels.pop()?.kind === "object" ? "}" : "]";
    return this.#go(this.#levels.length === 0 ? "close" : "behind-value", at + 1);
  }

  #readKey(text: string, at: number): Step {
    const level = this.#levels.at(-1);
    if (text.charAt(at) === "}" || level === undefined) return this.#end(at);
    const key = this.#keyAt(text, at);
    if (key === undefined) return { at, state: text.length - at < MAX_NAME ? "stop" : "malformed" };
    if (key === "none") return { at, state: "malformed" };
    this.#written += `${level.entries === 0 ? "" : ", "}${JSON.stringify(key.name)}: `;
    level.entries += 1;
    level.key = key.name;
    return this.#go("value", key.end);
  }

  #keyAt(text: string, at: number): { readonly name: string; readonly end: number } | "none" | undefined {
    const { textMark } = this.#marks;
    const quote = markAt(text, at, [textMark, '"']);
    if (quote === "partly") return undefined;
    const mark = quote?.mark ?? "";
    const start = at + mark.length;
    const end = quote === undefined ? bareEnd(KEY, text, at) : text.indexOf(mark, start);
    if (end < 0) return undefined;
    const colon = skipSpace(text, end + mark.length);
    if (colon === text.length) return undefined;
    const name = text.slice(start, end);
    const isKey =
      text.charAt(colon) === ":" && end > start && end - start < MAX_NAME && !(mark === '"' && /\\/.test(name));
    return isKey ? { name: mark === "" ? name.trim() : name, end: colon + 1 } : "none";
  }

  #readValue(text: string, at: number): Step {
    const level = this.#levels.at(-1);
    const char = text.charAt(at);
    const isList = level?.kind === "list";
    if (isList && char === "]") return this.#end(at);
    const found = markAt(text, at, [this.#marks.textMark]);
    if (found === "partly") return { at, state: "stop" };
    const lead = isList && level.entries > 0 ? ", " : "";
    if (found === undefined && !'{["'.includes(char)) return this.#readBare(text, at, lead);
    this.#written += lead;
    if (isList) level.entries += 1;
    if (found !== undefined) {
      this.#written += '"';
      return this.#go("text", at + found.mark.length);
    }
    if (char !== '"') return this.#begin(char === "{" ? "object" : "list", at);
    this.#scanner = new JsonScanner({ root: "any" });
    return this.#go("json", at);
  }

  #readText(text: string, at: number): Step {
    const { textMark } = this.#marks;
    const end = text.indexOf(textMark, at);
    const to = end < 0 ? text.length - heldSuffixLength(text.slice(at), [textMark]) : end;
    this.#written += inString(text.slice(at, to));
    if (end < 0) return { at: to, state: "stop" };
    this.#written += '"';
    return this.#go("behind-value", end + textMark.length);
  }

  #readJson(text: string, at: number): Step {
    const { consumed, state } = this.#scanner.push(text.slice(at));
    this.#written += text.slice(at, at + consumed);
    if (state === "complete") return this.#go("behind-value", at + consumed);
    return { at: at + consumed, state: state === "invalid" ? "malformed" : "stop" };
  }

  /** Reads a value without a mark before it: a word, or a text whose first mark is missing. */
  #readBare(text: string, at: number, lead: string): Step {
    const { textMark, close } = this.#marks;
    const end = this.#wordEnd(text, at);
    if (end === "partly") return { at, state: text.length - at < MAX_BARE ? "stop" : "malformed" };
    if (end !== undefined) return this.#endBare(jsonOf(text.slice(at, end), this.#typesHere()), end, lead);
    const mark = text.indexOf(textMark, at);
    const closeAt = text.indexOf(close, at);
    const isOver = (closeAt >= 0 && (mark < 0 || closeAt < mark)) || (mark < 0 ? text.length : mark) - at >= MAX_BARE;
    if (isOver) return { at, state: "malformed" };
    if (mark < 0) return { at, state: "stop" };
    const value = text.slice(at, mark);
    // After one of these characters, a mark begins a text.
    if (/[:,[{]\s*$/.test(value)) return { at, state: "malformed" };
    return this.#endBare(JSON.stringify(value), mark + textMark.length, lead);
  }

  #endBare(json: string, at: number, lead: string): Step {
    const level = this.#levels.at(-1);
    if (level?.kind === "list") level.entries += 1;
    this.#written += lead + json;
    return this.#go("behind-value", at);
  }

  /** A JSON word, or one after which the object or list ends or continues; `"partly"` if more text is needed. */
  #wordEnd(text: string, at: number): number | "partly" | undefined {
    const end = bareEnd(WORD, text, at);
    if (end === -1) return "partly";
    if (end === at) return undefined;
    const behind = skipSpace(text, end);
    const char = text.charAt(behind);
    if (char === "") return "partly";
    if (char === "}" || char === "]") return end;
    if (char !== ",") return undefined;
    const isList = this.#levels.at(-1)?.kind === "list";
    if (isList || jsonOf(text.slice(at, end), undefined) === text.slice(at, end)) return end;
    const key = skipSpace(text, behind + 1);
    const keyEnd = bareEnd(KEY, text, key);
    if (keyEnd === -1) return text.length - key < MAX_NAME ? "partly" : undefined;
    return keyEnd > key && text.charAt(keyEnd) === ":" ? end : undefined;
  }

  #readBehindValue(text: string, at: number): Step {
    const kind = this.#levels.at(-1)?.kind;
    const char = text.charAt(at);
    if (char === ",") return this.#go(kind === "object" ? "key" : "value", at + 1);
    return char === (kind === "object" ? "}" : "]") ? this.#end(at) : { at, state: "malformed" };
  }

  #typesHere(): ReadonlySet<JsonType> | undefined {
    return this.typesAt(this.#levels.map(({ kind, key }) => (kind === "list" ? ITEM : key)));
  }
}

function bareEnd(expression: RegExp, text: string, at: number): number {
  expression.lastIndex = at;
  const length = expression.exec(text)?.[0].length ?? 0;
  return at + length === text.length ? -1 : at + length;
}

/** Calls whose arguments are an object with bare keys, and texts between special marks (Gemma 4). */
export const bareKeys = toolCallForm({
  schema: z
    .strictObject({
      form: z.literal("bare-keys"),
      open: mark.describe("The mark before a call."),
      namePrefix: mark.describe("The text between `open` and the name."),
      otherNamePrefixes: others("The texts that models write instead of `namePrefix`"),
      textClose: mark.describe("The mark before and after a text, which has no escapes."),
      close: mark.describe("The mark after a call."),
    })
    .describe("`open namePrefix NAME{KEY:textClose TEXT textClose,KEY:42,…}close`"),

  usable: (markers, { isKnown }) =>
    [markers.open, markers.textClose, markers.close].every(isKnown) ? markers : undefined,

  reading({ open, namePrefix, otherNamePrefixes, textClose, close }, tools) {
    const marks: BareKeyCallMarks = { heads: [namePrefix, ...otherNamePrefixes], textMark: textClose, close };
    const newReader = () => new BareKeyCallReader(marks, tools);
    return { ...UNGROUPED, openers: openersOf(open), strays: [close], newReader };
  },

  // A grammar writes the content of objects and lists as JSON, which the reader accepts.
  markup({ open, namePrefix, textClose, close }) {
    return {
      ...opening(open, namePrefix),
      begins: (name) => name,
      rest: (_, args) => sequence(literal("{"), args, markup(`}${close}`)),
      tags: {
        open: "",
        key: (key) => (/^[^\s{}[\],:<>"]+$/.test(key) ? key : textClose + key + textClose),
        keyEnds: (kind) => [kind === "text" ? `:${textClose}` : ":"],
        after: (_, kind) => (kind === "text" ? textClose : ""),
        close: textClose,
        distinguishesKind: true,
        between: ",",
        notInKeys: '{}[],:<>" ',
      },
      between: open + namePrefix,
      close: "",
    };
  },
});
