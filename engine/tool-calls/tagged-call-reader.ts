import type { JsonType } from "./argument-types.ts";
import { ArgumentWriter } from "./argument-writer.ts";
import {
  type CallableTools,
  type CallProgress,
  CallReader,
  heldSuffixLength,
  MAX_NAME,
  markAt,
  type Step,
  skipSpace,
} from "./call-reader.ts";
import { CallDepth, ElementValue } from "./element-value.ts";
import { isSpace } from "./json-scanner.ts";

export type KeyEnd = { readonly mark: string; readonly value: "by-schema" | "text" | "json" };

/** The marks of a call whose arguments are tags with plain text, without surrounding white space. */
export type TaggedCallMarks = {
  readonly opens: readonly string[];
  /** The mark that ends the name; "" if the next tag does. */
  readonly nameEnd: string;
  readonly headEnd?: string;
  readonly parameterOpen: string;
  readonly keyEnds: readonly KeyEnd[];
  readonly valueOpen?: string;
  readonly valueLead?: string;
  readonly valueTail?: string;
  readonly valueClose: (key: string) => string;
  readonly callClose: string;
  readonly outerClose?: string;
  /** Whether keys escape `"` and `&` as `&quot;` and `&amp;`. */
  readonly escapesKeys?: boolean;
  readonly nests?: boolean;
};

/** What the forms without such marks leave out. */
const NONE = {
  headEnd: "",
  valueOpen: "",
  valueLead: "",
  valueTail: "",
  outerClose: "",
  escapesKeys: false,
  nests: false,
};

type Position =
  | "name"
  | "head"
  | "parameters"
  | "object"
  | "key"
  | "value-open"
  | "value-start"
  | "value-lead"
  | "value"
  | "elements";

/** UTF-16 units after a closing mark inside a value within which another mark must follow for it to count. */
const MAX_SPACE_BEHIND_VALUE = 64;

/** Names that models use for a single argument around all others, unless the tool has an argument of that name. */
const WRAPPERS: readonly string[] = ["arguments", "input"];

const MAX_HEAD = 64;

/** An unknown attribute after a key. */
const ATTRIBUTE = /"\s+[\w-]+="[^"]*$/;

const TEXT_ONLY: ReadonlySet<JsonType> = new Set(["string"]);
const ANY_BUT_TEXT: ReadonlySet<JsonType> = new Set(["number", "boolean", "null", "object", "array"]);

/**
 * Reads `NAME nameEnd`, parameters and `callClose`. Unambiguous mistakes are accepted: missing closing marks, one
 * parameter that holds all arguments, a JSON object in place of parameters, and a self-closing tag without arguments.
 */
export class TaggedCallReader extends CallReader {
  readonly #marks: Required<TaggedCallMarks>;
  readonly #emptyEnd: string;
  readonly #writer = new ArgumentWriter();
  #position: Position = "name";
  protected isStarted = false;
  #objectIsRead = false;
  #missing = new Set<string>();
  #key: { readonly name: string; readonly end: KeyEnd["value"] } = { name: "", end: "by-schema" };
  #lead = "";
  #valueClose = "";
  #elements: ElementValue | undefined;
  #depth: CallDepth;
  /** Counts the parameters that are open inside a value. */
  #tags: CallDepth;

  constructor(marks: TaggedCallMarks, tools: CallableTools, lead: string) {
    super(tools, lead);
    this.#marks = { ...NONE, ...marks };
    this.#emptyEnd = marks.nameEnd.endsWith(">") ? `${marks.nameEnd.slice(0, -1)}/>` : "";
    this.#depth = this.#newDepth();
    this.#tags = this.#depth;
  }

  get argumentsAreWhole(): boolean {
    return this.#writer.isWhole;
  }

  flush(rest: string): string {
    const { at, isWhole } = this.#callEnd(rest);
    const isValue = this.#position === "value";
    const end = this.#closedAt(rest.slice(0, at)) ?? at;
    const valueIsWhole = isValue && isWhole && this.#endValue(rest, 0, end).state !== "malformed";
    if (valueIsWhole || (this.#objectIsRead && !this.#writer.isWhole)) this.#writer.end();
    else {
      if (isValue) this.#flushValue(rest);
      this.#writer.letGo();
    }
    return this.#writer.take();
  }

  #flushValue(rest: string): void {
    const end = this.#closedAt(rest);
    if (end === undefined) this.#take(rest, 0, rest.length - this.#heldOf(rest));
    else this.#endValue(rest, 0, end);
  }

  /** Where the closing mark at the end of a text begins, the first one if it is written twice; undefined without one. */
  #closedAt(text: string): number | undefined {
    const before = withoutEnd(text, this.#valueClose);
    const once = before === undefined ? undefined : withoutEnd(before, this.#valueClose);
    return once !== undefined && this.#tags.behind(once) === 0 ? once.length : before?.length;
  }

  protected written(state: CallProgress["state"]): string {
    if (state === "malformed") this.#writer.letGo();
    return this.#writer.take();
  }

  protected step(text: string, at: number): Step {
    switch (this.#position) {
      case "name":
        return this.#readName(text, at);
      case "head":
        return this.#readHead(text, at);
      case "parameters":
        return this.#readTag(text, skipSpace(text, at));
      case "object":
        return this.#readObject(text, at);
      case "key":
        return this.#readKey(text, at);
      case "value-open":
        return this.#openValue(text, skipSpace(text, at));
      case "value-start":
        return this.#beginValue(text, at);
      case "value-lead":
        return this.#readLead(text, at);
      case "value":
        return this.#readValue(text, at);
      case "elements":
        return this.#readElements(text, at);
    }
  }

  #go(position: Position, at: number): Step {
    this.#position = position;
    return { at, state: "open" };
  }

  #readName(text: string, at: number): Step {
    const { opens, nameEnd, headEnd, parameterOpen, callClose, escapesKeys } = this.#marks;
    const ends = nameEnd === "" ? [parameterOpen, callClose] : [nameEnd, this.#emptyEnd].filter((mark) => mark !== "");
    const end = Math.min(...ends.map((mark) => indexOrEnd(text, mark, at)));
    const longest = Math.max(...ends.map((mark) => mark.length));
    const written = text.slice(at, end);
    // A mentioned mark must not hide a call after it.
    if (opens.some((mark) => written.includes(mark))) return { at, state: "malformed" };
    if (end === text.length && end - at < MAX_NAME + longest) return { at, state: "stop" };
    const name = written.trim();
    if (end - at >= MAX_NAME || name === "") return { at, state: "malformed" };
    this.name = escapesKeys ? unescaped(name) : name;
    this.#missing = new Set(this.declared);
    if (this.#emptyEnd !== "" && text.startsWith(this.#emptyEnd, end))
      return this.#endCall(end + this.#emptyEnd.length);
    return this.#go(headEnd === "" ? "parameters" : "head", end + nameEnd.length);
  }

  #readHead(text: string, at: number): Step {
    const { headEnd } = this.#marks;
    const end = indexOrEnd(text, headEnd, at);
    const mayCome = end === text.length && end - at < MAX_HEAD + headEnd.length;
    if (end - at > MAX_HEAD && !mayCome) return { at, state: "malformed" };
    return end === text.length ? { at, state: "stop" } : this.#go("parameters", end + headEnd.length);
  }

  #readTag(text: string, at: number): Step {
    if (text.charAt(at) === "{" && !this.isStarted) return this.#go("object", at);
    return this.#readEnd(text, at, [this.#marks.parameterOpen]);
  }

  #readEnd(text: string, at: number, keyMarks: readonly string[]): Step {
    const { callClose, outerClose } = this.#marks;
    const opens = this.isStarted ? this.#marks.opens : [];
    const found = markAt(text, at, [...opens, ...keyMarks, callClose, outerClose]);
    if (found === undefined) return { at, state: "malformed" };
    if (found === "partly") return { at, state: "stop" };
    if (keyMarks.includes(found.mark)) return this.#go("key", at + found.mark.length);
    return this.#endCall(found.mark === callClose ? at + callClose.length : at);
  }

  #endCall(at: number): Step {
    this.isStarted = true;
    this.#writer.end();
    return { at, state: "closed" };
  }

  #readObject(text: string, from: number): Step {
    this.isStarted = true;
    const { consumed, state } = this.#writer.appendObject(text.slice(from));
    const at = from + consumed;
    if (state !== "complete") return { at, state: state === "invalid" ? "malformed" : "stop" };
    this.#objectIsRead = true;
    return this.#readEnd(text, skipSpace(text, at), []);
  }

  #readKey(text: string, at: number): Step {
    const key = this.#keyAt(text, at);
    if (key === "partly") return { at, state: "stop" };
    if (key === undefined) return { at, state: "malformed" };
    this.#key = { name: key.name, end: key.value };
    return this.#marks.valueOpen === "" ? this.#startValue(key.end) : this.#go("value-open", key.end);
  }

  /** `"partly"` if more text is needed. */
  #keyAt(
    text: string,
    at: number,
  ): { readonly name: string; readonly value: KeyEnd["value"]; readonly end: number } | "partly" | undefined {
    const { keyEnds, escapesKeys, nests } = this.#marks;
    const ends = keyEnds.map((each) => ({ ...each, at: indexOrEnd(text, each.mark, at) }));
    const first = ends.reduce((a, b) => (b.at < a.at ? b : a));
    const longest = Math.max(...keyEnds.map(({ mark }) => mark.length));
    if (first.at === text.length && first.at - at < MAX_NAME + longest) return "partly";
    const written = text.slice(at, first.at).trim();
    const name = escapesKeys ? unescaped(written) : written.replace(ATTRIBUTE, "");
    const isKey = name !== "" && !(nests && name.startsWith("/"));
    if (first.at - at >= MAX_NAME || !isKey) return undefined;
    return { name, value: first.value, end: first.at + first.mark.length };
  }

  #openValue(text: string, at: number): Step {
    const { valueOpen } = this.#marks;
    const passed = this.passed(text, at, [valueOpen]);
    return passed.state === "open" ? this.#startValue(passed.at) : passed;
  }

  #startValue(at: number): Step {
    const { name, end } = this.#key;
    const { nests, valueClose, valueLead } = this.#marks;
    const types = end === "json" ? ANY_BUT_TEXT : this.#typesOf(name, end);
    const { declared } = this;
    const isFirst = !this.isStarted;
    if (isFirst && WRAPPERS.includes(name) && declared.size > 0 && !declared.has(name)) {
      this.#writer.startWrapper(name, types, declared);
    } else this.#writer.startValue(name, types);
    this.#missing.delete(name);
    this.isStarted = true;
    this.#depth = this.#newDepth();
    this.#lead = valueLead;
    this.#valueClose = valueClose(name);
    this.#tags = new CallDepth(this.#marks.valueOpen || this.#marks.parameterOpen, this.#valueClose);
    const isText = !nests || (types?.size === 1 && types.has("string"));
    return this.#go(isText ? "value-lead" : "value-start", at);
  }

  #beginValue(text: string, at: number): Step {
    const { parameterOpen } = this.#marks;
    const start = skipSpace(text, at);
    const found = start - at > MAX_SPACE_BEHIND_VALUE ? undefined : markAt(text, start, [parameterOpen]);
    if (found === "partly") return { at, state: "stop" };
    if (found === undefined) return this.#go("value-lead", at);
    this.#elements = new ElementValue(parameterOpen, this.#key.name, (path) => this.typesAt(path));
    return this.#go("elements", at);
  }

  #readElements(text: string, from: number): Step {
    if (this.#elements === undefined) return { at: from, state: "malformed" };
    const { consumed, value } = this.#elements.push(text.slice(from));
    const at = from + consumed;
    if (value === "malformed") return { at, state: "malformed" };
    if (value === undefined) return { at, state: "stop" };
    this.#writer.append(value);
    return this.#writer.endValue() ? this.#go("parameters", at) : { at, state: "malformed" };
  }

  /** Returns the types of a value by its schema; a value announced as text is a string unless the schema forbids it. */
  #typesOf(name: string, end: "by-schema" | "text"): ReadonlySet<JsonType> | undefined {
    const bySchema = this.typesAt([name]);
    if (end === "by-schema") return bySchema;
    return bySchema === undefined || bySchema.has("string") ? TEXT_ONLY : bySchema;
  }

  #readLead(text: string, at: number): Step {
    if (this.#lead === "") return this.#go("value", at);
    if (at === text.length) return { at, state: "stop" };
    const isLead = text.charAt(at) === this.#lead.charAt(0);
    this.#lead = isLead ? this.#lead.slice(1) : "";
    return { at: isLead ? at + 1 : at, state: "open" };
  }

  /** Finds the closing mark that counts: another mark of the call follows it. */
  #readValue(text: string, from: number): Step {
    const valueClose = this.#valueClose;
    const next = this.#nextParameter(text, from);
    let close = indexOrEnd(text, valueClose, from);
    let isEnd = this.#endsValue(text, from, close);
    while (isEnd === "no") {
      close = indexOrEnd(text, valueClose, close + 1);
      isEnd = this.#endsValue(text, from, close);
    }
    if (next.isWhole && next.at < close) return this.#endValue(text, from, next.at);
    if (isEnd === "yes") {
      const ended = this.#endValue(text, from, close);
      return ended.state === "malformed" ? ended : { ...ended, at: this.#behindClose(text, close) };
    }
    if (close < text.length) return this.#take(text, from, close - this.#tailBefore(text, from, close));
    const ends = [next.at, this.#callEnd(text, from).at].map((at) => at - this.#tailBefore(text, from, at));
    return this.#take(text, from, Math.min(text.length - this.#heldOf(text.slice(from)), ...ends));
  }

  #endValue(text: string, from: number, at: number): Step {
    const taken = this.#take(text, from, at - this.#tailBefore(text, from, at));
    if (taken.state === "malformed") return taken;
    return this.#writer.endValue() ? this.#go("parameters", at) : { at: taken.at, state: "malformed" };
  }

  #heldOf(text: string): number {
    return heldSuffixLength(text, [this.#valueClose, this.#marks.valueTail + this.#valueClose]);
  }

  #tailBefore(text: string, from: number, at: number): number {
    const { valueTail } = this.#marks;
    return text.slice(from, at).endsWith(valueTail) ? valueTail.length : 0;
  }

  /** Where a missing parameter begins, so that the closing mark was omitted; the end of the text if none does. */
  #nextParameter(text: string, from: number): { readonly at: number; readonly isWhole: boolean } {
    const { parameterOpen } = this.#marks;
    if (this.#missing.size === 0) return { at: text.length, isWhole: false };
    for (let at = text.indexOf(parameterOpen, from); at >= 0; at = text.indexOf(parameterOpen, at + 1)) {
      const start = at + parameterOpen.length;
      const key = this.#keyAt(text, start);
      const isClosed = text
        .slice(start, key === "partly" || key === undefined ? text.length : key.end)
        .includes(this.#valueClose);
      if (key === "partly" && !isClosed) return { at, isWhole: false };
      const isOuter = key !== "partly" && key !== undefined && !isClosed && this.#missing.has(key.name);
      if (isOuter && this.#depth.behind(text.slice(from, at)) === 0) return { at, isWhole: true };
    }
    return { at: text.length - heldSuffixLength(text.slice(from), [parameterOpen]), isWhole: false };
  }

  /** The call's closing marks at the end of the text, or their prefixes, and whether one is complete. */
  #callEnd(text: string, from = 0): { readonly at: number; readonly isWhole: boolean } {
    const marks = [this.#marks.outerClose, this.#marks.callClose].filter((mark) => mark !== "");
    let at = text.length - heldSuffixLength(text.slice(from), marks);
    let isWhole = false;
    for (const mark of marks) {
      const end = spaceBefore(text, from, at);
      if (!text.slice(from, end).endsWith(mark)) continue;
      at = end - mark.length;
      isWhole = true;
    }
    return { at, isWhole };
  }

  #take(text: string, from: number, to: number): Step {
    this.#depth.push(text.slice(from, to));
    this.#tags.push(text.slice(from, to));
    const at = from + this.#writer.append(text.slice(from, to));
    return { at, state: at < to ? "malformed" : "stop" };
  }

  #endsValue(text: string, from: number, close: number): "yes" | "no" | "unknown" {
    if (close === text.length) return "unknown";
    const isOutside = this.#tags.behind(text.slice(from, close)) === 0;
    const next = spaceBehind(text, isOutside ? this.#behindClose(text, close) : close + this.#valueClose.length);
    const { opens, parameterOpen, callClose, outerClose } = this.#marks;
    const found = markAt(text, next, [...opens, parameterOpen, callClose, outerClose, this.#valueClose]);
    if (found === undefined || found === "partly") return found === undefined ? "no" : "unknown";
    if (found.mark === this.#valueClose) return "no";
    return this.#depth.behind(text.slice(from, close)) === 0 ? "yes" : this.#endsOuterValue(text, next, found.mark);
  }

  /** Returns the position after a closing mark, and after a second one, as some models write it twice. */
  #behindClose(text: string, close: number): number {
    const behind = close + this.#valueClose.length;
    const second = spaceBehind(text, behind);
    return text.startsWith(this.#valueClose, second) ? second + this.#valueClose.length : behind;
  }

  /** Whether a closing mark followed by `mark` ends a value that contains the mark of a call. */
  #endsOuterValue(text: string, from: number, mark: string): "yes" | "no" | "unknown" {
    const { opens, parameterOpen, callClose, outerClose } = this.#marks;
    if (mark === parameterOpen) {
      const key = this.#keyAt(text, from + mark.length);
      if (key === "partly") return "unknown";
      return key !== undefined && this.#missing.has(key.name) ? "yes" : "no";
    }
    for (let at = from; ; ) {
      const found = markAt(text, skipSpace(text, at), [...opens, callClose, outerClose]);
      if (found === undefined) return "no";
      if (found === "partly") return "unknown";
      if (opens.includes(found.mark)) return "yes";
      at = skipSpace(text, at) + found.mark.length;
    }
  }

  #newDepth(): CallDepth {
    return new CallDepth(this.#marks.opens[0] ?? this.#marks.callClose, this.#marks.callClose);
  }
}

/** Returns the unescaped key. A quotation mark ends it: the rest is an unknown attribute. */
function unescaped(key: string): string {
  const [name = ""] = key.split('"');
  return name.replaceAll("&quot;", '"').replaceAll("&amp;", "&");
}

/** Returns the text before a mark at its end, followed by white space at most; undefined without the mark. */
function withoutEnd(text: string, mark: string): string | undefined {
  const trimmed = text.trimEnd();
  return trimmed.endsWith(mark) ? trimmed.slice(0, -mark.length) : undefined;
}

function spaceBehind(text: string, from: number): number {
  let end = from;
  while (end - from < MAX_SPACE_BEHIND_VALUE && isSpace(text.charAt(end))) end += 1;
  return end;
}

function spaceBefore(text: string, from: number, at: number): number {
  let start = at;
  while (start > from && at - start < MAX_SPACE_BEHIND_VALUE && isSpace(text.charAt(start - 1))) start -= 1;
  return start;
}

function indexOrEnd(text: string, mark: string, from: number): number {
  const found = text.indexOf(mark, from);
  return found < 0 ? text.length : found;
}
