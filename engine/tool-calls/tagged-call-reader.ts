import type { JsonType } from "./argument-types.ts";
import { ArgumentWriter } from "./argument-writer.ts";
import {
  type CallableTools,
  type CallLead,
  type CallProgress,
  CallReader,
  MAX_NAME,
  type Step,
  skipSpace,
} from "./call-reader.ts";
import { ElementValue } from "./element-value.ts";
import { MarkSet, markAt } from "./mark-set.ts";
import { allOf, isOf, type Mark } from "./mark-spellings.ts";
import { ValueEnd, type ValueMarks, ValueSets } from "./value-end.ts";

export type KeyEnd = { readonly mark: string; readonly value: "by-schema" | "text" | "json" };

/** The marks of a call whose arguments are tags with plain text, without surrounding white space. */
export type TaggedCallMarks = ValueMarks & {
  /** The mark that ends the name; "" if the next tag does. */
  readonly nameEnd: string;
  readonly headEnd: string;
  readonly keyEnds: readonly KeyEnd[];
  readonly keyClose: Mark;
  readonly valueLead: string;
  /** Whether keys escape `"` and `&` as `&quot;` and `&amp;`. */
  readonly escapesKeys: boolean;
  /** The text before every tag, if values may consist of tags; "" if not. */
  readonly tagMark: string;
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

/** Names that models use for a single argument around all others, unless the tool has an argument of that name. */
const WRAPPERS: readonly string[] = ["arguments", "input"];

const MAX_HEAD = 64;
const MAX_SPACE_BEFORE_ELEMENT = 64;

/** The longest value whose opening tag may be left out, in UTF-16 units: it is held back until its closing tag. */
const MAX_UNOPENED_VALUE = 16 * 1024;

/** An unknown attribute after a key. */
const ATTRIBUTE = /"\s+[\w-]+="[^"]*$/;

/** A name in the place of a mark before it, with a fence around the arguments or none. */
const BARE_NAME = /[\w.:-]+\s*(?:`{1,3}[a-z]*\s*)?/y;
const FENCE = "```";

const TEXT_ONLY: ReadonlySet<JsonType> = new Set(["string"]);
const ANY_BUT_TEXT: ReadonlySet<JsonType> = new Set(["number", "boolean", "null", "object", "array"]);

const MAX_KEYS = 256;

/** The marks of a family's calls, ready to be looked for. */
export class TaggedCallSets {
  readonly marks: TaggedCallMarks;
  readonly emptyEnd: string;
  readonly nameEnds: MarkSet;
  readonly opens: MarkSet;
  readonly parameterOpens: MarkSet;
  /** Closing marks between parameters that close nothing. */
  readonly strays: MarkSet;
  /** What may stand between parameters, and behind an object in their place. */
  readonly firstTags: MarkSet;
  readonly tags: MarkSet;
  readonly endTags: MarkSet;
  /** A mark before a value, and those that cannot stand there. */
  readonly valueOpens: MarkSet;
  readonly #ofKeys = new Map<string, ValueSets>();

  constructor(marks: TaggedCallMarks) {
    const { nameEnd, callOpen, outerOpen, parameterOpen, keyClose, valueOpen, callClose, outerClose } = marks;
    const strays = allOf(keyClose, marks.valueClose(""));
    const emptyEnd = nameEnd.endsWith(">") ? `${nameEnd.slice(0, -1)}/>` : "";
    const closes = [...allOf(callClose, outerClose).marks, ...strays.marks];
    this.marks = marks;
    this.emptyEnd = emptyEnd;
    this.opens = allOf(callOpen, outerOpen);
    this.parameterOpens = allOf(parameterOpen);
    this.strays = strays;
    this.nameEnds =
      nameEnd === ""
        ? allOf(parameterOpen, callClose, { signed: strays.marks, plain: [] })
        : new MarkSet([nameEnd, emptyEnd]);
    this.firstTags = new MarkSet(this.parameterOpens.marks, closes);
    this.tags = new MarkSet(this.firstTags.marks, this.opens.marks);
    this.endTags = new MarkSet(closes, this.opens.marks);
    this.valueOpens = new MarkSet([valueOpen], this.parameterOpens.marks, this.opens.marks, allOf(callClose).marks);
  }

  ofKey(key: string): ValueSets {
    const sets = this.#ofKeys.get(key) ?? new ValueSets(this.marks, key);
    if (this.#ofKeys.size >= MAX_KEYS) this.#ofKeys.clear();
    this.#ofKeys.set(key, sets);
    return sets;
  }
}

/**
 * Reads `NAME nameEnd`, parameters and `callClose`. Unambiguous mistakes are accepted: marks in other spellings,
 * missing ones, one parameter that holds all arguments, a JSON object in place of parameters, and a self-closing tag
 * without arguments.
 */
export class TaggedCallReader extends CallReader {
  readonly #sets: TaggedCallSets;
  readonly #marks: TaggedCallMarks;
  /** Whether the mark before the call lacks the family's sign. */
  readonly #isPlain: boolean;
  readonly #writer = new ArgumentWriter();
  #position: Position = "name";
  protected isStarted = false;
  #objectIsRead = false;
  #isFenced = false;
  #missing = new Set<string>();
  #key: { readonly name: string; readonly end: KeyEnd["value"] } = { name: "", end: "by-schema" };
  #keyIsPlain = false;
  #lead = "";
  #end: ValueEnd | undefined;
  #elements: ElementValue | undefined;

  constructor(sets: TaggedCallSets, tools: CallableTools, lead?: CallLead, isPlain = false) {
    super(tools, lead);
    this.#sets = sets;
    this.#marks = sets.marks;
    this.#isPlain = isPlain;
  }

  get argumentsAreWhole(): boolean {
    return this.#writer.isWhole;
  }

  flush(rest: string): string {
    const end = this.#position === "value" ? this.#end?.atEnd(rest) : undefined;
    const taken = end && this.#take(rest, 0, end.to);
    const isEnded = taken !== undefined && taken.state !== "malformed" && end?.isEnded && this.#writer.endValue();
    if ((isEnded && end?.isWhole) || (this.#objectIsRead && !this.#writer.isWhole)) this.#writer.end();
    else this.#writer.writeHeld();
    return this.#writer.take();
  }

  protected written(state: CallProgress["state"]): string {
    if (state === "malformed") this.#writer.writeHeld();
    return this.startedName === undefined ? "" : this.#writer.take();
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

  /** The name of a tool and a JSON object in the place of the mark of a call. */
  protected override withoutMark(text: string, at: number): Step {
    BARE_NAME.lastIndex = at;
    const written = BARE_NAME.exec(text)?.[0] ?? "";
    const end = at + written.length;
    const name = /^[\w.:-]+/.exec(written)?.[0] ?? "";
    if (end === text.length && written.length < MAX_NAME) return { at, state: "stop" };
    if (!this.isTool(name) || text.charAt(end) !== "{") return { at, state: "malformed" };
    this.#setName(name);
    this.#isFenced = written.includes(FENCE);
    return this.#go("object", end);
  }

  #go(position: Position, at: number): Step {
    this.#position = position;
    return { at, state: "open" };
  }

  #setName(name: string): void {
    this.name = name;
    this.#missing = new Set(this.declared);
  }

  #readName(text: string, at: number): Step {
    const { nameEnd, headEnd, escapesKeys } = this.#marks;
    const { nameEnds, emptyEnd, opens } = this.#sets;
    const most = MAX_NAME + (nameEnds.marks[0]?.length ?? 0);
    const end = nameEnds.find(text.slice(0, at + most), at)?.at ?? Math.min(text.length, at + most);
    const written = text.slice(at, end);
    // A mentioned mark must not hide a call after it.
    if (opens.find(written) !== undefined) return { at, state: "malformed" };
    if (end === text.length && end - at < most) return { at, state: "stop" };
    const name = written.trim();
    if (end - at >= MAX_NAME || name === "") return { at, state: "malformed" };
    this.#setName(escapesKeys ? unescaped(name) : name);
    if (emptyEnd !== "" && text.startsWith(emptyEnd, end)) return this.#endCall(end + emptyEnd.length);
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
    const step = this.#readMark(text, at, this.isStarted ? this.#sets.tags : this.#sets.firstTags);
    return step.state === "malformed" && !this.isStarted ? this.#readUnopened(text, at) : step;
  }

  #readMark(text: string, at: number, marks: MarkSet): Step {
    const { parameterOpens, strays } = this.#sets;
    const found = marks.at(text, at);
    if (found === undefined) return { at, state: "malformed" };
    if (found === "partly") return { at, state: "stop" };
    const behind = at + found.mark.length;
    if (parameterOpens.has(found.mark)) {
      this.#keyIsPlain = this.#marks.parameterOpen.plain.includes(found.mark);
      return this.#go("key", behind);
    }
    if (isOf(found.mark, this.#marks.callClose)) return this.#endCall(behind);
    return strays.has(found.mark) ? { at: behind, state: "open" } : this.#endCall(at);
  }

  #endCall(at: number): Step {
    this.isStarted = true;
    this.#writer.end();
    return { at, state: "closed" };
  }

  #readObject(text: string, from: number): Step {
    if (!this.#objectIsRead) {
      this.isStarted = true;
      const { consumed, state } = this.#writer.appendObject(text.slice(from));
      const at = from + consumed;
      if (state !== "complete") return { at, state: state === "invalid" ? "malformed" : "stop" };
      this.#objectIsRead = true;
      return { at, state: "open" };
    }
    const at = skipSpace(text, from);
    const fence = this.#isFenced ? markAt(text, at, [FENCE]) : undefined;
    if (fence === "partly") return { at, state: "stop" };
    if (fence !== undefined) this.#isFenced = false;
    return fence === undefined
      ? this.#readMark(text, at, this.#sets.endTags)
      : { at: at + FENCE.length, state: "open" };
  }

  /** The value of a first parameter whose opening tag is left out, as its closing tag has its key. */
  #readUnopened(text: string, from: number): Step {
    const { tagMark } = this.#marks;
    const malformed: Step = { at: from, state: "malformed" };
    if (tagMark === "") return malformed;
    const at = text.startsWith(tagMark, from) ? from + tagMark.length : from;
    const end = text.indexOf(tagMark, at);
    if (end < 0) return text.length - at < MAX_UNOPENED_VALUE ? { at: from, state: "stop" } : malformed;
    const close = `${tagMark}</`;
    const rest = text.slice(end, end + close.length + MAX_NAME);
    const nameEnd = rest.indexOf(">", close.length);
    if (!rest.startsWith(close) || nameEnd < 0)
      return close.startsWith(rest) || (rest.startsWith(close) && rest.length < MAX_NAME)
        ? { at: from, state: "stop" }
        : malformed;
    const name = rest.slice(close.length, nameEnd);
    if (!this.#missing.has(name)) return malformed;
    this.#key = { name, end: "by-schema" };
    this.#startWriting(this.#typesOf(name, "by-schema"));
    this.#writer.append(text.slice(at, end));
    return this.#writer.endValue() ? this.#go("parameters", end + nameEnd + 1) : malformed;
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
    const { keyEnds, escapesKeys, tagMark } = this.#marks;
    const most = MAX_NAME + Math.max(...keyEnds.map(({ mark }) => mark.length));
    const near = text.slice(0, at + most);
    const ends = keyEnds.map((each) => ({ ...each, at: indexOrEnd(near, each.mark, at) }));
    const first = ends.reduce((a, b) => (b.at < a.at ? b : a));
    if (first.at === text.length && text.length - at < most) return "partly";
    const written = near.slice(at, first.at).trim();
    const name = escapesKeys ? unescaped(written) : written.replace(ATTRIBUTE, "");
    const isKey = name !== "" && !(tagMark !== "" && name.startsWith("/"));
    if (first.at - at >= MAX_NAME || !isKey) return undefined;
    return { name, value: first.value, end: first.at + first.mark.length };
  }

  /** Reads the mark before a value; a value begins without it, too, but for a mark of the call. */
  #openValue(text: string, at: number): Step {
    const { valueOpen } = this.#marks;
    const found = this.#sets.valueOpens.at(text, at);
    if (found === "partly" || at === text.length) return { at, state: "stop" };
    if (found === undefined) return this.#startValue(at);
    return found.mark === valueOpen ? this.#startValue(at + valueOpen.length) : { at, state: "malformed" };
  }

  #startValue(at: number): Step {
    const { name, end } = this.#key;
    const { tagMark, valueLead } = this.#marks;
    const types = end === "json" ? ANY_BUT_TEXT : this.#typesOf(name, end);
    this.#startWriting(types);
    this.#lead = valueLead;
    this.#end = new ValueEnd({
      sets: this.#sets.ofKey(name),
      isPlain: this.#isPlain || this.#keyIsPlain,
      isMissing: (key) => this.#missing.has(key),
      keyAt: (text, from) => this.#keyAt(text, from),
    });
    const isText = tagMark === "" || (types?.size === 1 && types.has("string"));
    return this.#go(isText ? "value-lead" : "value-start", at);
  }

  #startWriting(types: ReadonlySet<JsonType> | undefined): void {
    const { name } = this.#key;
    const { declared } = this;
    const isFirst = !this.isStarted;
    if (isFirst && WRAPPERS.includes(name) && declared.size > 0 && !declared.has(name)) {
      this.#writer.startWrapper(name, types, declared);
    } else this.#writer.startValue(name, types);
    this.#missing.delete(name);
    this.isStarted = true;
  }

  #beginValue(text: string, at: number): Step {
    const [parameterOpen = ""] = this.#marks.parameterOpen.signed;
    const start = skipSpace(text, at);
    const found = start - at > MAX_SPACE_BEFORE_ELEMENT ? undefined : markAt(text, start, [parameterOpen]);
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

  #readValue(text: string, from: number): Step {
    if (this.#end === undefined) return { at: from, state: "malformed" };
    const { to, next, isOver } = this.#end.look(text, from);
    const taken = this.#take(text, from, to);
    if (taken.state === "malformed" || !isOver)
      return taken.state === "malformed" ? taken : { ...taken, state: "open" };
    if (next === undefined) return taken;
    return this.#writer.endValue() ? this.#go("parameters", next) : { at: taken.at, state: "malformed" };
  }

  #take(text: string, from: number, to: number): Step {
    this.#end?.push(text.slice(from, to));
    const at = from + this.#writer.append(text.slice(from, to));
    return { at, state: at < to ? "malformed" : "stop" };
  }
}

/** Returns the unescaped key. A quotation mark ends it: the rest is an unknown attribute. */
function unescaped(key: string): string {
  const [name = ""] = key.split('"');
  return name.replaceAll("&quot;", '"').replaceAll("&amp;", "&");
}

function indexOrEnd(text: string, mark: string, from: number): number {
  const found = text.indexOf(mark, from);
  return found < 0 ? text.length : found;
}
